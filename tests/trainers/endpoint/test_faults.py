"""Failures of endpoints: temporary ones are retried, lasting ones fail the episode, and others stop the run."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.messages import text_of
from agentgym.core.policy import Policy
from agentgym.core.registry import make
from agentgym.core.trajectory import Trajectory, read_jsonl
from agentgym.eval.evaluation import evaluate
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.streams import play_jobs

pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from agentgym.trainers.endpoint import EndpointPolicy, EndpointSettings
from tests.endpoints import Fake, Said, call, calling, completion, guessing, policy_at
from tests.rows import each_row

GUESS = EnvFactory("agentgym/guess-v0", {"dialect": "native"})
TASKS = [make("guess").tasks.get("test", index) for index in range(6)]


def play(policy: Policy, count: int = 1, limits: Limits | None = None) -> list[Trajectory]:
    jobs = [Job(task, 0) for task in TASKS[:count]]
    return asyncio.run(play_jobs(jobs, policy, GUESS, limits or Limits(retries=0)))


def at_first(response: Said, times: int = 1) -> Callable[[dict[str, Any], int], Said]:
    """A model that solves the task, behind a server that answers the first requests with `response`."""
    return lambda request, number: response if number < times else guessing(request)


FAILED = {"error": {"code": 502, "message": "The provider is overloaded"}}


@each_row(
    "response",
    [
        Said({"error": {"message": "Overloaded"}}, 500),
        Said({"error": "Slow down"}, 429),
        Said({}, 408),
        Said("<html>Welcome</html>"),
        Said({"choices": [{"message": {"tool_calls": [{"function": {"name": 5}}]}}]}),
        Said("[" * 100_000),
        Said({"choices": ["x" * 5000]}, cut=True),
        # Failures with the status of a success.
        Said(FAILED),
        Said({"choices": [{**FAILED, "message": {"content": ""}}]}),
        completion("The answer is", "network_error"),
        *(Said("<html>Oops</html>", status) for status in (421, 460, 499)),  # statuses of gateways
    ],
)
def test_temporary_failures_are_retried(response: Said):
    fake = Fake(at_first(response, 2))
    with fake.serving() as url:
        policy = policy_at(url)
        [trajectory] = play(policy)
    assert trajectory.success
    assert policy.usage.retries == 2
    assert policy.usage.requests == len(trajectory.turns) == len(fake.requests) - 2


@each_row(
    "response, message",
    [
        (Said({"error": {"message": "Overloaded."}}, 503), "in 3 tries; at last: HTTP 503: Overloaded"),
        (Said("no json"), "not a chat completion"),
    ],
)
def test_an_endpoint_that_stays_broken_fails_the_episode(response: Said, message: str):
    fake = Fake(lambda request, number: response)
    with fake.serving() as url:
        [trajectory] = play(policy_at(url, retries=2))
    assert trajectory.reason is Reason.INFRASTRUCTURE
    assert message in (trajectory.error or "")
    assert len(fake.requests) == 3
    assert trajectory.reward == 0


def test_a_slow_answer_is_given_up_and_asked_for_again(monkeypatch: pytest.MonkeyPatch):
    import aiohttp

    limits: list[float | None] = []
    post = aiohttp.ClientSession.post

    def slow_at_first(session: aiohttp.ClientSession, *args: Any, **options: Any) -> Any:
        limits.append(session.timeout.total)
        if len(limits) == 1:
            raise TimeoutError  # as after that time
        return post(session, *args, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "post", slow_at_first)
    with Fake(lambda request, number: guessing(request)).serving() as url:
        [trajectory] = play(policy := policy_at(url, timeout_s=90))
    assert trajectory.success
    assert policy.usage.retries == 1
    assert set(limits) == {90}


@each_row(
    "headers, seconds",
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "Tue, 02 Jan 2024 03:04:55 GMT", "Date": "Tue, 02 Jan 2024 03:04:05 GMT"}, 50),
    ],
)
def test_retry_after_is_respected_and_no_slow_turn(
    headers: dict[str, str], seconds: float, monkeypatch: pytest.MonkeyPatch
):
    waits = recorded_waits(monkeypatch)
    with Fake(at_first(Said({}, 429, headers))).serving() as url:
        policy = policy_at(url)
        [trajectory] = play(policy, limits=Limits(retries=0, generation_timeout_s=5))
    assert trajectory.success
    assert policy.usage.retries == 1
    assert seconds <= max(waits) <= seconds + 1


def recorded_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the client's waits pass at once, by the clock of the event loop too; return the list of them."""
    from agentgym.trainers.endpoint import limits
    from agentgym.trainers.endpoint import policy as client

    waits: list[float] = []

    class Clock:
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        async def sleep(self, seconds: float) -> None:
            waits.append(seconds)
            loop = asyncio.get_running_loop()
            time = loop.time
            monkeypatch.setattr(loop, "time", lambda: time() + seconds)
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # timers that are due have run

        def monotonic(self) -> float:
            return 100.0 + sum(waits)

    for module in (client, limits):
        monkeypatch.setattr(module, "asyncio", Clock())
        monkeypatch.setattr(module, "time", Clock())
    return waits


def test_an_endpoint_that_asks_for_too_long_a_wait_has_failed():
    fake = Fake(lambda request, number: Said({"error": "Come back tomorrow."}, 429, {"Retry-After": "86400"}))
    with fake.serving() as url:
        [trajectory] = play(policy_at(url))
    assert trajectory.reason is Reason.INFRASTRUCTURE
    assert "asks to wait 86400 s, more than longest_wait_s (60)" in (trajectory.error or "")
    assert len(fake.requests) == 1


@each_row(
    "response, message",
    [
        (Said({"error": {"message": "Bad key."}}, 401), r"\(HTTP 401\): Bad key; set MY_KEY to a valid API key"),
        (Said({"message": "no model fake"}, 404), "no model fake; check the model's name, and the URL"),
        (Said({"error": {"message": "top_k?", "code": "unknown"}}, 400), "top_k\\? \\(unknown\\); change the setting"),
        (Said({"error": {"message": "Pay.", "code": "insufficient_quota"}}, 429), "its quota is used up"),
        (Said("", 301, {"Location": "https://there/v1"}), "it moved to https://there/v1"),
    ],
)
def test_failures_that_no_repetition_helps_stop_the_run_in_one_line(response: Said, message: str):
    fake = Fake(lambda request, number: response)
    with fake.serving() as url, pytest.raises(UsageError, match=message) as raised:
        play(policy_at(url, key="MY_KEY"))
    assert "\n" not in str(raised.value)
    assert len(fake.requests) == 1


REFUSED = Said({"error": {"message": "What is that?"}}, 400)


def test_a_refusal_of_every_later_turn_stops_the_run():
    fake = Fake(lambda request, _: REFUSED if len(request["messages"]) > 2 else calling(call("x", {})))
    with fake.serving() as url, pytest.raises(UsageError, match="What is that"):
        play(policy_at(url), 3)


def test_a_turn_cut_off_at_its_limit_is_recorded_as_such_and_not_repeated():
    fake = Fake(lambda request, number: calling(call("guess", {"number": 1})) if number else completion("I", "length"))
    with fake.serving() as url:
        [trajectory] = play(policy := policy_at(url, max_tokens=5))
    assert [turn.action["finish_reason"] for turn in trajectory.turns[:2]] == ["length", "tool_calls"]  # type: ignore[index]
    assert [turn.finish for turn in trajectory.turns[:2]] == ["length", "stop"]
    assert "cut off at its limit" in text_of(trajectory.turns[0].observation[0])
    assert (policy.usage.cut_off, policy.usage.retries) == (1, 0)
    assert fake.requests[0]["max_tokens"] == 5


def test_a_prompt_that_does_not_fit_stops_the_run_if_none_has_fitted_yet():
    fake = Fake(lambda request, number: Said({"error": {"message": "maximum context length is 9 tokens"}}, 400))
    with fake.serving() as url, pytest.raises(UsageError, match=r"first prompt does not fit: .*lower --max"):
        play(policy_at(url))


def test_a_budget_stops_the_run_and_keeps_finished_episodes(tmp_path: Path):
    out = tmp_path / "out.jsonl"
    fake = Fake(lambda request, number: guessing(request))
    prices = {"fake": {"input": 100_000, "output": 200_000, "cached_input": 0}}  # 2 a request
    with fake.serving() as url:

        def run(budget: float) -> Any:
            policy = EndpointPolicy("fake", url, EndpointSettings(prices=prices, budget=budget))  # type: ignore[arg-type]
            return evaluate(GUESS, policy, TASKS, out=out, limits=Limits(max_in_flight=1)), policy

        with pytest.raises(UsageError, match=r"budget of 20 is spent.*file of --out.*may spend the budget again"):
            run(20)
        recorded = list(read_jsonl(out))
        request_count = len(fake.requests)
        summary, policy = run(1000)
    assert request_count == 10
    assert 0 < len(recorded) < len(TASKS)
    assert all(trajectory.success for trajectory in recorded)
    assert summary.success == 1.0
    assert policy.usage.cost == pytest.approx(2 * policy.usage.requests)
    assert policy.usage.requests < sum(len(trajectory.turns) for trajectory in read_jsonl(out))


def test_a_budget_needs_prices():
    with pytest.raises(UsageError, match="a budget needs the price of 'fake'"):
        policy_at("http://127.0.0.1:9/v1", budget=1)


def test_usage_is_counted():
    def said(request: dict[str, Any], number: int) -> Said:
        answer = guessing(request)
        answer.body["usage"] |= {"prompt_tokens_details": {"cached_tokens": 4}}
        return answer

    fake = Fake(said)
    with fake.serving() as url:
        prices = {"fake": {"input": 1.0, "output": 2.0, "cached_input": 0.5}}
        [trajectory] = play(policy := policy_at(url, prices=prices))
    count = len(trajectory.turns)
    usage = policy.usage
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (count, 10 * count, 5 * count)
    assert usage.cached_prompt_tokens == 4 * count
    assert usage.cost == pytest.approx(count * (6 * 1 + 4 * 0.5 + 5 * 2) / 1e6)
    assert policy.account().startswith(f"{count} requests, {10 * count} + {5 * count} tokens")
    recorded = {"prompt_tokens": 10 * count, "cached_prompt_tokens": 4 * count, "completion_tokens": 5 * count}
    assert trajectory.usage == pytest.approx(recorded | {"cost": usage.cost})


def test_a_run_from_the_cache_asks_nothing_and_attempts_differ(tmp_path: Path):
    fake = Fake(lambda request, number: guessing(request))
    jobs = [Job(TASKS[0], 7, attempt) for attempt in (0, 1)]
    with fake.serving() as url:
        first = asyncio.run(play_jobs(jobs, policy_at(url, cache=str(tmp_path)), GUESS))
        request_count = len(fake.requests)
        again = asyncio.run(play_jobs(jobs, policy := policy_at(url, cache=str(tmp_path)), GUESS))
        assert len(fake.requests) == request_count == sum(len(trajectory.turns) for trajectory in first)
        asyncio.run(play_jobs(jobs, policy_at(url, cache=str(tmp_path), temperature=0.5), GUESS))
        assert len(fake.requests) == 2 * request_count
    assert [trajectory.messages for trajectory in first] == [trajectory.messages for trajectory in again]
    assert (policy.usage.requests, policy.usage.cached) == (0, request_count)


def test_failures_are_not_cached(tmp_path: Path):
    fake = Fake(at_first(Said({}, 500), 2))
    with fake.serving() as url:
        [failed] = play(policy_at(url, retries=1, cache=str(tmp_path)))
        [later] = play(policy_at(url, retries=1, cache=str(tmp_path)))
    assert failed.failed
    assert later.success


def test_one_policy_plays_in_several_event_loops_and_leaves_nothing_open():
    fake = Fake(lambda request, number: guessing(request))
    with fake.serving() as url:
        policy = policy_at(url, concurrency=1)
        for _ in range(2):
            assert all(trajectory.success for trajectory in play(policy, 3))

        async def closed() -> None:
            jobs = [Job(TASKS[0], 0)]
            await play_jobs(jobs, policy, GUESS)
            await policy.aclose()
            await play_jobs(jobs, policy, GUESS)

        asyncio.run(closed())


# The connection: proxies and certificates.

PASSWORD = "pass-of-the-proxy"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The variables of an environment without proxies."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@each_row("form", ["{}", "HTTP://me:p@w@{}/"])
def test_requests_go_through_the_proxy_of_the_environment(form: str, proxy: pytest.MonkeyPatch):
    fake = Fake(lambda request, number: guessing(request))
    with fake.serving() as url:
        proxy.setenv("http_proxy", form.format(url.removeprefix("http://").removesuffix("/v1")))
        [trajectory] = play(policy_at("http://model.test/v1"))
    assert trajectory.success
    assert set(fake.paths) == {"http://model.test/v1/chat/completions"}


@each_row("named", ["socks5://me:{}@127.0.0.1:9", "http://[::1", "http://me:{}@"])
def test_a_proxy_of_another_kind_stops_the_run_in_one_line(named: str, proxy: pytest.MonkeyPatch):
    proxy.setenv("http_proxy", named.format(PASSWORD))
    with pytest.raises(UsageError, match="is not an HTTP proxy; set one like http://HOST:PORT in http_proxy") as raised:
        play(policy_at("http://model.test/v1"))
    assert PASSWORD not in str(raised.value)


def test_a_proxy_that_is_down_is_named_without_its_password(proxy: pytest.MonkeyPatch):
    proxy.setenv("http_proxy", f"http://me:{PASSWORD}@127.0.0.1:9")
    [trajectory] = play(policy_at("http://model.test/v1", retries=0))
    assert trajectory.reason is Reason.INFRASTRUCTURE
    assert "through the proxy 127.0.0.1: " in str(trajectory.error)
    assert PASSWORD not in str(trajectory.error)


def test_a_certificate_that_is_not_trusted_stops_the_run_in_one_line():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    fake = Fake(lambda request, number: guessing(request))
    message = r"its certificate is not trusted \(.*unable to get local issuer.*\); .* SSL_CERT_FILE"
    with fake.serving(context) as url, pytest.raises(UsageError, match=message) as raised:
        play(policy_at(url))
    assert "\n" not in str(raised.value)
    assert not fake.requests
