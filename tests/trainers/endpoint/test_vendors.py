"""Endpoints of many vendors: answers are read completely, and every refusal is classified correctly."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.base.retries import doubled_s, retry_after_s
from agentgym.core.endings import Reason

pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from agentgym.trainers.endpoint.connection import Response
from agentgym.trainers.endpoint.failures import Declined, asked_wait_s, may_pass, refusal, with_true_status
from agentgym.trainers.endpoint.limits import Tries
from agentgym.trainers.endpoint.settings import checked
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


# Content of answers.


@each_row(
    "content, text, reasoning",
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", None),
        ([{"type": "output_text", "text": "ab"}], "ab", None),
        (["a", "b"], "ab", None),
        ([{"type": "refusal", "refusal": "No."}], "No.", None),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, "b"], "b", "Hm."),
        ([{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "b"}], "b", None),
        ([], "", None),
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


@each_row("message", [{"code": 402}, {"code": "402"}, {"code": "no_credits", "status": 402}])
def test_a_refusal_with_a_status_of_success_is_one(message: dict[str, Any]):
    with pytest.raises(UsageError, match=r"No credits.*; its account has no money left"):
        answered(Said({"error": {**message, "message": "No credits"}}))


# Refusals.

TOO_LONG = (
    (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
    (400, "the request exceeds the available context size. try increasing the context size"),
    (500, "the request exceeds the available context size"),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (400, "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
    (422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    (400, "This model's maximum prompt length is 131072 but the request contains 200000 tokens."),
    (400, "Input is too long for requested model."),
    (400, "Range of input length should be [1, 30720]"),
    (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    (413, "Request Entity Too Large"),
)


@each_row("status, message", TOO_LONG)
def test_a_conversation_that_is_too_long_is_recognised_whoever_says_it(status: int, message: str):
    response = Said({"error": {"message": message}}, status)
    with Fake(lambda request, number: response if number else calling(call("x", {}))).serving() as url:
        [trajectory] = play(policy_at(url))
    assert trajectory.reason is Reason.CONTEXT


@each_row("raw", ["prompt is too long: 9 > 8", '{"error": {"message": "This context length is 8"}}'])
def test_the_words_of_the_provider_behind_a_router_are_read(raw: str):
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "P"}}
    for status in (200, 400):
        message = with_true_status(Response(status, {}, json.dumps({"error": error}).encode()))
        refused = refusal(message, "u", "K", pictures=False)
        assert type(refused).__name__ == "TooLong"
        assert str(refused).startswith("Provider returned error: ")


@each_row("metadata", [None, {"raw": None}, {"raw": {"a": 1}}, [1], {"raw": ""}])
def test_metadata_that_is_no_text_of_a_provider_is_left_out(metadata: Any):
    body = json.dumps({"error": {"message": "No.", "metadata": metadata}}).encode()
    assert "(HTTP 400): No; " in str(refusal(Response(400, {}, body), "u", "K", pictures=False))


@each_row(
    "message", ["`temperature` is too large", "max_tokens is too large: 99999", "prompt is required", "Unknown field"]
)
def test_other_refusals_still_stop_the_run(message: str):
    with pytest.raises(UsageError, match="refused the request"):
        answered(Said({"error": {"message": message}}, 400))


@each_row(
    "status, error",
    [
        (400, {"message": "Invalid prompt: your prompt was flagged as potentially violating our usage policy."}),
        (403, {"message": 'm requires moderation. Your input was flagged for "violence"', "code": 403}),
        (400, {"message": "Output blocked by content filtering policy", "type": "invalid_request_error"}),
        (400, {"message": "Input data may contain inappropriate content.", "code": "DataInspectionFailed"}),
        (400, {"message": "The request failed.", "code": "InputTextSensitiveContentDetected"}),
    ],
)
def test_a_filter_is_recognised_whoever_has_it(status: int, error: dict[str, Any]):
    refused = refusal(Response(status, {}, json.dumps({"error": error}).encode()), "u", "K", pictures=False)
    assert type(refused).__name__ == "ContentFiltered"


@each_row("message", ["The field x is flagged as unknown", "Blocked", "see our content policy"])
def test_other_refusals_are_no_filter(message: str):
    refused = refusal(Response(400, {}, json.dumps({"error": message}).encode()), "u", "K", pictures=False)
    assert type(refused).__name__ == "ConversationRefused"


@each_row(
    "error, reason",
    [
        ({"message": "maximum context length is 9 tokens"}, Reason.CONTEXT),
        ({"message": "no", "code": "content_filter"}, Reason.GAVE_UP),
        ({"message": "What is that?"}, Reason.INFRASTRUCTURE),
    ],
)
def test_a_prompt_that_is_declined_before_others_are_answered_does_not_stop_the_run(
    error: dict[str, Any], reason: Reason, monkeypatch: pytest.MonkeyPatch
):
    both_asked, declined = threading.Event(), threading.Event()

    def say(request: dict[str, Any], number: int) -> Said:
        if number == 0:
            both_asked.wait(60)
            return Said({"error": error}, 400)
        both_asked.set()
        declined.wait(60)  # to answer takes longer
        return guessing(request)

    async def complete(request: Mapping[str, Any], seed: int) -> Any:
        try:
            return await ask(request, seed)
        except Declined:
            declined.set()
            raise

    with Fake(say).serving() as url:
        policy = policy_at(url)
        ask = policy.client.complete
        monkeypatch.setattr(policy.client, "complete", complete)
        played = play(policy, 2)
    assert {trajectory.reason for trajectory in played} == {reason, Reason.SOLVED}


def test_a_filter_that_refuses_the_first_prompt_stops_the_run():
    with pytest.raises(UsageError, match="filter rejects the first prompt"):
        answered(Said({"error": {"message": "no", "code": "content_filter"}}, 400))


@each_row("finish", ["model_length", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded"])
def test_turns_that_are_cut_off_are_counted_in_the_words_of_every_vendor(finish: str):
    trajectory, policy = answered(completion("Hm", finish))
    assert trajectory.turns[0].action["finish_reason"] == "length"
    assert policy.usage.cut_off == 1


@each_row("status", [400, 403, 413, 422, 451])
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


def test_a_request_that_is_larger_than_a_minute_allows_is_not_repeated():
    response = Said(
        {"error": {"message": "Request too large for m on tokens per min: Limit 30000, Requested 35000."}}, 429
    )
    with pytest.raises(UsageError, match="Requested 35000; it is larger than the rate limit: lower --max-new-tokens"):
        answered(response)


@each_row(
    "status, message, advice",
    [
        (400, "System role not supported", "system=user"),
        (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model.", "system=user"),
        (400, "Unknown name 'parallel_tool_calls': Cannot find field.", "forbid_parallel_calls=false"),
        (
            400,
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
            "max_tokens_field=max_completion_tokens",
        ),
        (400, "`temperature` and `top_p` cannot both be specified for this model", "temperature=null"),
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
        (400, "registry.ollama.ai/library/gemma:2b does not support tools", "--dialect hermes"),
        (404, "No endpoints found that support tool use.", "--dialect hermes"),
        (400, "Missing `reasoning_content` field in the assistant message at message index 2", "reasoning=keep"),
        (400, "Function call is missing a thought_signature in functionCall parts.", "reasoning=keep"),
        (400, "stop: Extra inputs are not permitted", "change the setting it names"),
        (404, "The model `m` does not exist", "check the model's name"),
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
        Said({"error": {"message": "\x1b[2J no way"}}, 500),
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


# Waits.


@each_row(
    "text, seconds",
    [
        ("You exceeded your current quota, please check your plan and billing details. Please retry in 23.5s.", 23.5),
        ("Rate limit reached. Please try again in 7s.", 7),
        ("Retry after 12 seconds", 12),
        ("Please wait 58 seconds before retrying", 58),
        ("try again in 250ms", 0.25),
        ("try again in 20 milliseconds", 0.02),
        ("try again in 6m0s.", 360),
        ("try again in 1h2m3.5s", 3723.5),
        ("retry in 2 minutes", 120),
        ("try again in 5 months", 0),
        ("try again in 5m or so, in 7s", 300),
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


def test_a_wait_that_doubles_is_bounded_however_often_something_failed():
    assert [doubled_s(0.5, times, 60.0) for times in (0, 1, 2, 7, 10_000)] == [0.5, 1.0, 2.0, 60.0, 60.0]
    assert doubled_s(0.0, 10_000, 60.0) == 0.0


def test_a_rate_limit_that_never_ends_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    waits = recorded_waits(monkeypatch)
    with Fake(lambda request, number: Said({}, 429)).serving() as url:
        [trajectory] = play(policy_at(url, first_wait_s=0.5))
        assert 60 <= sum(waits) < 180
        [at_once] = play(policy_at(url, retries=0))
    assert trajectory.reason is at_once.reason is Reason.INFRASTRUCTURE
    assert "in 1 try; at last: HTTP 429" in str(at_once.error)


def test_failures_and_rate_limits_are_counted_apart():
    tries = Tries(retries=2, longest_wait_s=60, answered=0)
    assert [tries.may_repeat(0, limited=limited) for limited in (True, True, True, False, False, True)] == [True] * 6
    assert not tries.may_repeat(0, limited=False)


def test_a_request_that_others_overtake_waits_as_long_as_they_are_answered():
    tries = Tries(retries=2, longest_wait_s=60, answered=7)
    for answered_now in range(8, 20):
        tries.add_wait(61)
        assert tries.may_repeat(answered_now, limited=True)
    tries.add_wait(61)
    assert not tries.may_repeat(19, limited=True)
    endless = Tries(retries=1, longest_wait_s=60, answered=0)
    assert [endless.may_repeat(now, limited=True) for now in range(500)].index(False) == 99


# Money.


@each_row("usage", [{}, {"prompt_tokens": 10}, {"prompt_tokens": 10, "completion_tokens": -5}, None])
@each_row("budget", [{"budget": 1, "prices": {"fake": {"input": 1, "output": 1}}}, {"budget_tokens": 99}])
def test_a_budget_is_not_kept_by_counts_that_are_missing(usage: Any, budget: dict[str, Any]):
    with pytest.raises(UsageError, match="reports no usage"):
        answered(completion("Hm.", usage=usage), **budget)


def test_answers_that_cannot_be_read_are_paid_and_kept_to_the_budget():
    with Fake(lambda request, number: completion("The answer is", "abort")).serving() as url:
        policy = policy_at(url, budget_tokens=25, prices={"fake": {"input": 1e6, "output": 1e6}})
        with pytest.raises(UsageError, match=r"budget_tokens of 25 is spent \(30 tokens"):
            play(policy)
    assert (policy.usage.requests, policy.usage.cost) == (0, 30)


@each_row("value", [float("nan"), float("inf")])
def test_prices_budgets_and_limits_are_finite(value: float):
    for name in ("budget", "timeout_s", "requests_per_minute", "temperature"):
        with pytest.raises(UsageError, match=name):
            checked({name: value})
    with pytest.raises(UsageError, match=r"prices\.m\.input"):
        checked({"prices": {"m": {"input": value, "output": 1}}})


def used(**usage: Any) -> Any:
    return read_answer(json.dumps({"choices": [{"message": {"content": ""}}], "usage": usage}).encode()).tokens


def test_reasoning_that_stands_in_the_total_alone_is_paid():
    assert used(prompt_tokens=5, completion_tokens=6, total_tokens=111).completion == 106
    assert used(prompt_tokens=5, completion_tokens=6, total_tokens=11).completion == 6
    assert used(prompt_tokens=5, completion_tokens=6, total_tokens=0).completion == 6
    assert used(prompt_tokens=5, completion_tokens=6, total_tokens=None).completion == 6


def test_cached_tokens_are_found_in_the_fields_of_several_vendors():
    counts = {"prompt_tokens": 5, "completion_tokens": 6}
    assert used(**counts, prompt_tokens_details={"cached_tokens": 3}, prompt_cache_hit_tokens=4).cached == 3
    assert used(**counts, prompt_cache_hit_tokens=4).cached == 4
    assert used(**counts, prompt_cache_hit_tokens=9).cached == 5
    assert used(**counts, prompt_tokens_details=[1]).cached == 0


@each_row("usage, count", [(None, 1), ({"prompt_tokens": 9}, 1), ({}, 1)])
def test_a_cost_that_leaves_answers_out_says_so(usage: Any, count: int):
    _, policy = answered(completion("Hm.", usage=usage), prices={"fake": {"input": 1, "output": 1}})
    assert policy.usage.uncounted == count
    assert "1 answered without token counts, cost" in policy.account()
    assert policy.account().endswith(" without these")


# The cache.


@each_row("broken", [b"", b"{", b"\xff\x00", b'{"choices": []}', b'{"error": {"message": "x"}}'])
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
