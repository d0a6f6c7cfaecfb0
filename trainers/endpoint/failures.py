"""Classifies an endpoint's failures: temporary ones, those that end an episode, and those that end the run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

from agentgym.base.errors import UsageError
from agentgym.trainers.endpoint.connection import Response, one_line

_MAY_PASS = frozenset({408, 409, 421, 423, 424, 425, 429})
_REGISTERED = frozenset(map(int, HTTPStatus))
"""Other codes are a gateway's own for upstream failures, such as 499 (nginx), 460 (AWS) and 498 (Groq)."""
_ABOUT_CONTENT = frozenset({400, 403, 413, 422, 429, 451})
"""Firewalls and rate limits also reject single conversations, for their content or length."""
_TOO_LONG = re.compile(
    r"""
      context_length_exceeded | exceed_context_size | model_max_prompt_tokens_exceeded
    | context\ (?:length|window|size|limit)                           # OpenAI, vLLM, SGLang, llama.cpp, Mistral
    | too\ many\ (?:input\ )?tokens                                   # Cohere
    | maximum\ (?:model|prompt|input)\ length                         # vLLM, xAI
    | (?:prompt|input|request|conversation)\ is\ too\ (?:long|large)   # Anthropic, Bedrock
    | input\ token\ count\ .*exceeds                                  # Gemini
    | inputs?`\ (?:tokens\ \+|must\ have\ less\ than)                 # text-generation-inference
    | range\ of\ input\ length                                        # DashScope
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FILTERED = re.compile(
    r"""
      \(content_filter\) | content_policy_violation | content\ management\ policy | \(ResponsibleAIPolicyViolation\)
    | (?:prompt|input|content|message|request)\ (?:was|has\ been)\ flagged          # OpenAI, OpenRouter
    | content\ filtering\ policy                                                    # Anthropic
    | data_?inspection_?failed | sensitivecontentdetected                            # DashScope, Volcengine
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NO_MONEY = re.compile(r"insufficient_quota|billing", re.IGNORECASE)
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
"""OpenAI's message for a request that exceeds the limit per minute by itself."""
_UNIT = r"(?:milliseconds?|ms|hours?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
_AMOUNT = rf"[0-9]{{1,6}}(?:\.[0-9]{{1,9}})? ?{_UNIT}"
_ASKED_WAIT = re.compile(rf"(?:(?:retry|try again) (?:in|after)|please wait) ((?:{_AMOUNT} ?)+)", re.IGNORECASE)
_PART_OF_WAIT = re.compile(r"([0-9.]+) ?(ms|milli|[hms])", re.IGNORECASE)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "milli": 0.001}
_PICTURES = re.compile(r"image|multi-?modal", re.IGNORECASE)
_ADVICE = (
    (
        re.compile(r"system role|system messages? (?:is|are) not|role'? does not support 'system'", re.IGNORECASE),
        "put system messages before the first user message: --endpoint system=user",
    ),
    (re.compile(r"parallel_tool_calls"), "leave that out: --endpoint forbid_parallel_calls=false"),
    (re.compile(r"max_completion_tokens"), "set --endpoint max_tokens_field=max_completion_tokens"),
    (
        re.compile(r"reasoning_content|reasoning_details|thought_signature|thinking.{0,20}block"),
        "send its reasoning back: --endpoint reasoning=keep",
    ),
    (
        re.compile(r"tool.{0,9}choice.{0,9}requires|support.{0,20}\b(?:tool|function)s?\b", re.IGNORECASE),
        "have the server call tools, or let the model write its calls as text: --dialect hermes",
    ),
    (re.compile(r"\btemperature\b"), "leave the temperature out: --endpoint temperature=null"),
)
"""Advice by the wording of a refusal, for fields that are sent by default."""
_MAX_CHARS = 300
_MOST_TEXT = 20_000
"""Characters of a reason that are searched."""


class Declined(Exception):
    """The endpoint rejects one conversation; it may accept others."""


class TooLong(Declined):
    """The conversation does not fit the model's context."""


class ContentFiltered(Declined):
    """The endpoint's filter rejects the conversation."""


class ConversationRefused(Declined):
    """The endpoint rejects the request for another reason: the settings, or this conversation."""


def with_true_status(response: Response) -> Response:
    """Return a response with the status from its body: gateways report a model's failure with status 200."""
    data = _data_of(response) if b'"error"' in response.body else None
    if not 200 <= response.status < 300 or not isinstance(data, Mapping) or not data.get("error"):
        return response
    if data.get("choices"):
        return response
    error = data["error"]
    codes = (error.get("code"), error.get("status"), error.get("status_code")) if isinstance(error, Mapping) else ()
    statuses = [int(code) for code in map(str, codes) if re.fullmatch(r"[45]\d\d", code, re.ASCII)]
    return replace(response, status=400 if _TOO_LONG.search(_whole_reason(response)) else [*statuses, 500][0])


def asked_wait_s(response: Response) -> float:
    """Return the wait that the text of a response asks for, in seconds, as Gemini and OpenAI do; 0 by default."""
    match = _ASKED_WAIT.search(response.body[:_MOST_TEXT].decode("utf-8", "replace"))
    parts = _PART_OF_WAIT.findall(match[1]) if match else []
    return sum(float(amount) * _SECONDS[unit.lower()] for amount, unit in parts)


def may_pass(response: Response) -> bool:
    """Whether the same request may succeed later."""
    # A requested wait means a rate limit, even if the text mentions billing.
    if response.status == 429:
        reason = _whole_reason(response)
        return not _TOO_LARGE.search(reason) and (not _NO_MONEY.search(reason) or _names_a_wait(response))
    if response.status < 500:
        return response.status in _MAY_PASS or (response.status >= 400 and response.status not in _REGISTERED)
    return not _TOO_LONG.search(_whole_reason(response))


def _names_a_wait(response: Response) -> bool:
    return bool(response.headers.get("retry-after")) or asked_wait_s(response) > 0


def refusal(response: Response, url: str, key: str, pictures: bool) -> Exception:
    """Return the error for a response that a retry cannot change.

    Args:
        response: The response.
        url: The URL of the request.
        key: Name of the environment variable with the API key.
        pictures: Whether requests contain pictures.
    """
    reason, whole = reason_of(response), _whole_reason(response)
    if _is_too_long(response, whole):
        return TooLong(reason)
    if response.status in (400, 403, 422) and _FILTERED.search(whole):
        return ContentFiltered(reason)
    advice = {
        401: f"set {key} to a valid API key",
        402: "its account has no money left",
        403: f"check what the API key in {key} may use",
        404: "check the model's name, and the URL, which usually ends with /v1",
        407: "the proxy that the environment names (http_proxy, https_proxy) requires a user and a password in its URL",
        429: "its quota is used up",
    }.get(response.status, "change the setting it names: --endpoint KEY=VALUE")
    if response.status == 429 and _TOO_LARGE.search(whole):
        advice = "it is larger than the rate limit: lower --max-new-tokens, or raise the limit"
    if response.status in (400, 404, 422):
        advice = next((text for words, text in _ADVICE if words.search(whole)), advice)
    if pictures and response.status in (400, 415, 422) and _PICTURES.search(reason):
        advice = (
            "set --endpoint pictures=false if the model takes no pictures; otherwise let the server accept as many "
            "pictures per request as an episode shows"
        )
    if 300 <= response.status < 400:
        advice = f"it moved to {_cut(one_line(response.headers.get('location', 'another place')))}; give that URL"
    kind = ConversationRefused if response.status in _ABOUT_CONTENT else UsageError
    return kind(f"{url} refused the request (HTTP {response.status}): {reason}; {advice}")


def _is_too_long(response: Response, reason: str) -> bool:
    """Whether the conversation is too long. Status 413 also means a request that exceeds a rate limit."""
    if response.status == 413:
        return "rate_limit" not in reason
    return (response.status in (400, 422) or response.status >= 500) and bool(_TOO_LONG.search(reason))


def _data_of(response: Response) -> object:
    """Return the JSON data of a response, or `None`."""
    try:
        data = json.loads(response.body)
    except (ValueError, RecursionError):
        return None
    return data[0] if isinstance(data, list) and len(data) == 1 else data  # Gemini's errors are lists of one


def reason_of(response: Response) -> str:
    """Return the endpoint's error message as one short line."""
    return _cut(_whole_reason(response)).rstrip(".") or "it gave no reason"


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_CHARS else f"{line[:_MAX_CHARS]}…"


def _whole_reason(response: Response) -> str:
    """Return the endpoint's error message as one line, uncut: codes may follow a long message."""
    text = response.body.decode("utf-8", "replace")
    if isinstance(data := _data_of(response), Mapping):
        text = _message_of(data.get("error", data.get("detail", data.get("message", text))))
    return one_line(text[:_MOST_TEXT])


def _message_of(error: object) -> str:
    if not isinstance(error, Mapping):
        return str(error or "")
    message, code = str(error.get("message") or error.get("type") or ""), error.get("code")
    if inner := _inner_reason(error.get("metadata")):
        message = f"{message.rstrip('.')}: {inner}"
    if not isinstance(code, str) or not code:
        return message
    return f"{message.rstrip('.')} ({code})" if message else code


def _inner_reason(metadata: object) -> str:
    """Return the error of the provider behind OpenRouter."""
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    return _whole_reason(Response(0, {}, raw.encode("utf-8", "replace"))) if isinstance(raw, str) else ""
