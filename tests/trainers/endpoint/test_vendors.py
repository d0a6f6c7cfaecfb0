"""Endpoints of many vendors: answers are read completely, and every refusal is classified correctly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.base.retries import retry_after_s
from agentgym.core.endings import Reason

pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from agentgym.trainers.endpoint.connection import Response
from agentgym.trainers.endpoint.failures import asked_wait_s, may_pass, refusal, with_true_status
from agentgym.trainers.endpoint.wire import read_answer
from tests.endpoints import Fake, Said, call, calling, completion, guessing, policy_at
from tests.rows import each_row
from tests.trainers.endpoint.test_faults import play, recorded_waits


def answered(response: Said, **settings: Any) -> Any:
    """An episode and its policy, at an endpoint that sends `response` first and then solves the task."""
    with Fake(lambda request, number: response if number == 0 else guessing_after(request)).serving() as url:
        policy = policy_at(url, **settings)
        [trajectory] = play(policy)
    return trajectory, policy


def guessing_after(request: Mapping[str, Any]) -> Said:
    guesses = sum("tool_calls" in message for message in request["messages"])
    return calling(call("guess", {"number": guesses + 1}, None))


@each_row(
    "content, text, reasoning",
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", None),
        ([{"type": "refusal", "refusal": "No."}], "No.", None),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, "b"], "b", "Hm."),
        ([{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "b"}], "b", None),
        (None, "", None),
    ],
)
def test_content_in_parts_is_read(content: Any, text: str, reasoning: str | None):
    message = read_answer(written({"content": content})).message
    assert (message["content"], message.get("reasoning_content")) == (text, reasoning)


@each_row("content", [5, {"text": "a"}, [{"type": "audio", "id": "x"}], [5]])
def test_content_that_cannot_be_read_is_no_empty_turn(content: Any):
    trajectory, _ = answered(completion({"content": content}), retries=0)
    assert trajectory.reason is Reason.INFRASTRUCTURE


def written(message: Any) -> bytes:
    return json.dumps({"choices": [{"message": message}]}).encode()


TOO_LONG = (
    (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"),
    (400, "the request exceeds the available context size. try increasing the context size"),
    (500, "the request exceeds the available context size"),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
    (413, "Request Entity Too Large"),
)


@each_row("status, message", TOO_LONG)
def test_a_conversation_that_is_too_long_is_recognised_whoever_says_it(status: int, message: str):
    response = Said({"error": {"message": message}}, status)
    with Fake(lambda request, number: response if number else calling(call("x", {}))).serving() as url:
        [trajectory] = play(policy := policy_at(url))
    assert trajectory.reason is Reason.CONTEXT
    assert (policy.usage.overflows, "1 episodes ended" in policy.account()) == (1, True)


@each_row("raw", ["prompt is too long: 9 > 8", '{"error": {"message": "This context length is 8"}}'])
def test_the_words_of_the_provider_behind_a_router_are_read(raw: str):
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "P"}}
    for status in (200, 400):
        message = with_true_status(Response(status, {}, json.dumps({"error": error}).encode()))
        refused = refusal(message, "u", "K", pictures=False)
        assert type(refused).__name__ == "TooLong"
        assert str(refused).startswith("Provider returned error: ")


@each_row(
    "status, error, kind",
    [
        (400, {"message": "Invalid prompt: your prompt was flagged as violating our policy."}, "ContentFiltered"),
        (403, {"message": 'Your input was flagged for "violence"', "code": 403}, "ContentFiltered"),
        (400, {"message": "The request failed.", "code": "InputTextSensitiveContentDetected"}, "ContentFiltered"),
        (400, {"message": "The field x is flagged as unknown"}, "ConversationRefused"),
        (400, {"message": "see our content policy"}, "ConversationRefused"),
    ],
)
def test_a_filter_is_told_from_other_refusals(status: int, error: dict[str, Any], kind: str):
    refused = refusal(Response(status, {}, json.dumps({"error": error}).encode()), "u", "K", pictures=False)
    assert type(refused).__name__ == kind


def test_a_filter_that_refuses_the_first_prompt_stops_the_run():
    with pytest.raises(UsageError, match="filter rejects the first prompt"):
        answered(Said({"error": {"message": "no", "code": "content_filter"}}, 400))


@each_row("finish", ["model_length", "MAX_TOKENS"])
def test_turns_that_are_cut_off_are_counted_in_the_words_of_every_vendor(finish: str):
    trajectory, policy = answered(completion("Hm", finish))
    assert trajectory.turns[0].action["finish_reason"] == "length"
    assert policy.usage.cut_off == 1


@each_row("status", [400, 403, 451])
def test_a_firewall_that_refuses_one_conversation_fails_that_alone(status: int):
    response = Said({"error": {"message": "rate_limit: Blocked"}}, status)
    late = {"firewall": False}

    def say(request: dict[str, Any], number: int) -> Said:
        return response if late["firewall"] and len(request["messages"]) > 3 else guessing_after(request)

    with Fake(say).serving() as url:
        policy = policy_at(url)
        [before] = play(policy)
        late["firewall"] = True
        [refused] = play(policy)
    assert before.success
    assert refused.reason is Reason.INFRASTRUCTURE
    assert f"refused the request (HTTP {status}): rate_limit: Blocked" in str(refused.error)


@each_row(
    "status, message, advice",
    [
        (400, "System role not supported", "system=user"),
        (400, "Unknown name 'parallel_tool_calls': Cannot find field.", "forbid_parallel_calls=false"),
        (
            400,
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
            "max_tokens_field=max_completion_tokens",
        ),
        (
            400,
            "'temperature' does not support 0.0 with this model. Only the default (1) is supported",
            "temperature=null",
        ),
        (
            400,
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "--dialect hermes",
        ),
        (404, "No endpoints found that support tool use.", "--dialect hermes"),
        (400, "Missing `reasoning_content` field in the assistant message at message index 2", "reasoning=keep"),
        (400, "stop: Extra inputs are not permitted", "change the setting it names"),
        (429, "Request too large on tokens per min: Limit 30000, Requested 35000.", "lower --max-new-tokens"),
    ],
)
def test_a_refusal_of_what_nobody_asked_for_is_explained_with_the_setting_that_helps(
    status: int, message: str, advice: str
):
    with pytest.raises(UsageError, match=f"; .*{advice}"):
        answered(Said({"error": {"message": message}}, status))


@each_row(
    "response",
    [
        Said({"error": {"message": "\x1b[2J\x1b]0;title\x07 no\x00\x85\u202e\u2028way"}}, 400),
        Said("", 302, {"Location": "/\x1b[2J no way" + "y" * 5000}),
    ],
)
def test_the_words_of_an_endpoint_do_nothing_to_a_terminal(response: Said):
    try:
        [trajectory] = [answered(response, retries=0)[0]]
        message = str(trajectory.error)
    except UsageError as error:
        message = str(error)
    assert "no way" in message
    assert message.isprintable()
    assert len(message) < 1000


@each_row(
    "text, seconds",
    [
        ("You exceeded your current quota, please check your plan and billing details. Please retry in 23.5s.", 23.5),
        ("try again in 250ms", 0.25),
        ("try again in 1h2m3.5s", 3723.5),
        ("retry in 2 minutes", 120),
        ("try again in 5 months", 0),
        ("", 0),
    ],
)
def test_a_wait_that_stands_in_the_text_is_read(text: str, seconds: float):
    assert asked_wait_s(Response(429, {}, text.encode())) == pytest.approx(seconds)


def test_a_quota_error_that_names_a_wait_is_a_rate_limit():
    text = "You exceeded your current quota, please check your plan and billing details."
    assert not may_pass(Response(429, {}, text.encode()))
    assert may_pass(Response(429, {}, b"Slow down."))
    assert may_pass(Response(429, {"retry-after": "5"}, text.encode()))
    assert may_pass(Response(429, {}, f"{text} Please retry in 3s.".encode()))


@each_row("response", ["9" * 400, "-5", "nan", "inf", "Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 01 Jan 0001", ""])
def test_a_wait_that_cannot_be_is_none(response: str):
    assert retry_after_s({"retry-after": response}) == 0


def test_a_rate_limit_that_never_ends_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    waits = recorded_waits(monkeypatch)
    with Fake(lambda request, number: Said({}, 429)).serving() as url:
        [trajectory] = play(policy_at(url, first_wait_s=0.5))
        assert 60 <= sum(waits) < 180
        [at_once] = play(policy_at(url, retries=0))
    assert trajectory.reason is at_once.reason is Reason.INFRASTRUCTURE
    assert "in 1 try; at last: HTTP 429" in str(at_once.error)


@each_row("usage", [{}, {"prompt_tokens": 10, "completion_tokens": -5}, None])
def test_a_budget_is_not_kept_by_counts_that_are_missing(usage: Any):
    with pytest.raises(UsageError, match="reports no usage"):
        answered(completion("Hm.", usage=usage), budget=1, prices={"fake": {"input": 1, "output": 1}})


def test_answers_that_cannot_be_read_are_paid_and_kept_to_the_budget():
    with Fake(lambda request, number: completion("The answer is", "abort")).serving() as url:
        policy = policy_at(url, budget_tokens=25, prices={"fake": {"input": 1e6, "output": 1e6}})
        with pytest.raises(UsageError, match=r"budget_tokens of 25 is spent \(30 tokens"):
            play(policy)
    assert (policy.usage.requests, policy.usage.cost) == (0, 30)


@each_row(
    "usage, completion, cached",
    [
        ({"total_tokens": 111}, 106, 0),  # reasoning stands in the total alone, and is paid
        ({"total_tokens": 0}, 6, 0),
        ({"prompt_tokens_details": {"cached_tokens": 3}, "prompt_cache_hit_tokens": 4}, 6, 3),
        ({"prompt_cache_hit_tokens": 9}, 6, 5),
    ],
)
def test_tokens_are_counted_from_the_fields_of_several_vendors(usage: dict[str, Any], completion: int, cached: int):
    counts = {"prompt_tokens": 5, "completion_tokens": 6, **usage}
    tokens: Any = read_answer(json.dumps({"choices": [{"message": {"content": ""}}], "usage": counts}).encode()).tokens
    assert (tokens.completion, tokens.cached) == (completion, cached)


def test_a_cost_that_leaves_answers_out_says_so():
    _, policy = answered(completion("Hm.", usage=None), prices={"fake": {"input": 1, "output": 1}})
    assert policy.usage.uncounted == 1
    assert policy.account().endswith(" without these")


@each_row("broken", [b"{", b"\xff\x00", b'{"error": {"message": "x"}}'])
def test_a_damaged_answer_in_the_cache_is_asked_for_again(tmp_path: Path, broken: bytes):
    fake = Fake(lambda request, number: guessing(request))
    with fake.serving() as url:
        play(policy_at(url, cache=str(tmp_path)))
        request_count = len(fake.requests)
        cached_files = sorted(tmp_path.rglob("*.json"))
        cached_files[0].write_bytes(broken)
        [trajectory] = play(again := policy_at(url, cache=str(tmp_path)))
    assert trajectory.success
    assert (again.usage.requests, again.usage.cached) == (1, request_count - 1)
    assert b"choices" in cached_files[0].read_bytes()
