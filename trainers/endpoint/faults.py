"""Tells apart what may pass, what ends an episode and what ends the run, by what an endpoint answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from agentgym.errors import UsageError
from agentgym.trainers.endpoint.connection import Response

_MAY_PASS = frozenset({408, 409, 425, 429})
_ABOUT_CONTENT = frozenset({400, 422})
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
    r"\(content_filter\)|content_policy_violation|data_inspection_failed|content management policy", re.IGNORECASE
)
_NO_MONEY = re.compile(r"insufficient_quota|billing", re.IGNORECASE)
_ASKED_WAIT = re.compile(
    r"(?:retry|try again) (?:in|after) ([0-9]{1,6}(?:\.[0-9]{1,9})?) ?s(?:ec(?:ond)?s?)?\b", re.IGNORECASE
)
_PICTURES = re.compile(r"image|multi-?modal", re.IGNORECASE)
_MAX_CHARS = 300
_MOST_TEXT = 20_000
"""Characters of a reason in which something is looked for."""


class Declined(Exception):
    """The endpoint does not go on with one conversation, whatever it does with others."""


class TooLong(Declined):
    """The conversation does not fit the model's context."""


class Filtered(Declined):
    """The endpoint's filter refuses the conversation."""


class Refused(Declined):
    """The endpoint refuses the request for another reason: what all requests have in common, or this conversation."""


def as_told(response: Response) -> Response:
    """Return a response with the status that its body tells: gateways report failures of a model with status 200."""
    data = _data_of(response) if b'"error"' in response.body else None
    if not 200 <= response.status < 300 or not isinstance(data, Mapping) or not data.get("error"):
        return response
    if data.get("choices"):
        return response
    error = data["error"]
    code = error.get("code") if isinstance(error, Mapping) else None
    told = code if isinstance(code, int) and 400 <= code < 600 else 500
    return replace(response, status=400 if _TOO_LONG.search(_whole_reason(response)) else told)


def asked_wait_s(response: Response) -> float:
    """Return the seconds that the text of a response asks to wait, as Gemini and OpenAI do; 0 if it does not."""
    found = _ASKED_WAIT.search(response.body[:_MOST_TEXT].decode("utf-8", "replace"))
    return float(found[1]) if found else 0.0


def may_pass(response: Response) -> bool:
    """Whether the same request may succeed later."""
    # Who is told when to come back has a rate limit, whatever else is said about money.
    if response.status == 429 and _NO_MONEY.search(_whole_reason(response)) and not _tells_when(response):
        return False
    return response.status in _MAY_PASS or (response.status >= 500 and not _TOO_LONG.search(_whole_reason(response)))


def _tells_when(response: Response) -> bool:
    return bool(response.headers.get("retry-after")) or asked_wait_s(response) > 0


def refusal(response: Response, url: str, key: str, pictures: bool) -> Exception:
    """Return the error for a response that no repetition will change.

    Args:
        response: The response.
        url: Where the request went.
        key: Name of the environment variable with the API key.
        pictures: Whether pictures are sent.
    """
    reason, whole = reason_of(response), _whole_reason(response)
    if _is_too_long(response, whole):
        return TooLong(reason)
    if response.status in (400, 403, 422) and _FILTERED.search(whole):
        return Filtered(reason)
    advice = {
        401: f"set {key} to a valid API key",
        402: "its account has no money left",
        403: f"check what the API key in {key} may use",
        404: "check the model's name, and the URL, which usually ends with /v1",
        429: "its quota is used up",
    }.get(response.status, "change the setting it names: --endpoint KEY=VALUE")
    if pictures and response.status in (400, 415, 422) and _PICTURES.search(reason):
        advice = (
            "set --endpoint pictures=false if the model cannot see; if it can, have the server take as many pictures "
            "in a request as an episode shows"
        )
    if 300 <= response.status < 400:
        advice = f"it moved to {response.headers.get('location', 'another place')}; give that URL"
    kind = Refused if response.status in _ABOUT_CONTENT else UsageError
    return kind(f"{url} refused the request (HTTP {response.status}): {reason}; {advice}")


def _is_too_long(response: Response, reason: str) -> bool:
    """Whether the conversation is; a request that is too large for a rate limit has status 413 too."""
    if response.status == 413:
        return "rate_limit" not in reason
    return (response.status in (400, 422) or response.status >= 500) and bool(_TOO_LONG.search(reason))


def _data_of(response: Response) -> object:
    """Return the data in a response; `None` if there are none."""
    try:
        data = json.loads(response.body)
    except (ValueError, RecursionError):
        return None
    return data[0] if isinstance(data, list) and len(data) == 1 else data  # Gemini's errors are lists of one


def reason_of(response: Response) -> str:
    """Return what the endpoint says is wrong, in one short line."""
    line = _whole_reason(response)
    return (line if len(line) <= _MAX_CHARS else f"{line[:_MAX_CHARS]}…").rstrip(".") or "it gave no reason"


def _whole_reason(response: Response) -> str:
    """Return what the endpoint says is wrong, in one line: codes may stand behind a long message."""
    text = response.body.decode("utf-8", "replace")
    if isinstance(data := _data_of(response), Mapping):
        text = _told(data.get("error", data.get("detail", data.get("message", text))))
    return " ".join(text[:_MOST_TEXT].split())


def _told(error: object) -> str:
    if not isinstance(error, Mapping):
        return str(error or "")
    message, code = str(error.get("message") or ""), error.get("code")
    if not isinstance(code, str) or not code:
        return message
    return f"{message.rstrip('.')} ({code})" if message else code
