"""Tells apart what may pass, what ends an episode and what ends the run, by what an endpoint answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agentgym.errors import UsageError
from agentgym.trainers.endpoint.connection import Response

_MAY_PASS = frozenset({408, 409, 425, 429})
_TOO_LONG = re.compile(r"context_length_exceeded|context (?:length|window)|too many (?:input )?tokens", re.IGNORECASE)
_NO_MONEY = re.compile(r"insufficient_quota|billing", re.IGNORECASE)
_PICTURES = re.compile(r"image|multi-?modal", re.IGNORECASE)
_MAX_CHARS = 300


class TooLong(Exception):
    """The conversation does not fit the model's context."""


def may_pass(response: Response) -> bool:
    """Whether the same request may succeed later."""
    if response.status == 429 and _NO_MONEY.search(reason_of(response)):
        return False
    return response.status in _MAY_PASS or response.status >= 500


def refusal(response: Response, url: str, key: str, pictures: bool) -> Exception:
    """Return the error for a response that no repetition will change.

    Args:
        response: The response.
        url: Where the request went.
        key: Name of the environment variable with the API key.
        pictures: Whether pictures are sent.
    """
    reason = reason_of(response)
    if response.status in (400, 413, 422) and _TOO_LONG.search(reason):
        return TooLong(reason)
    advice = {
        401: f"set {key} to a valid API key",
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
    return UsageError(f"{url} refused the request (HTTP {response.status}): {reason}; {advice}")


def reason_of(response: Response) -> str:
    """Return what the endpoint says is wrong, in one line."""
    text = response.body.decode("utf-8", "replace")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, Mapping):
        error = data.get("error", data.get("detail", data.get("message", text)))
        text = _told(error)
    line = " ".join(text.split())
    return (line if len(line) <= _MAX_CHARS else f"{line[:_MAX_CHARS]}…").rstrip(".") or "it gave no reason"


def _told(error: object) -> str:
    if not isinstance(error, Mapping):
        return str(error or "")
    message, code = str(error.get("message") or ""), error.get("code")
    if not isinstance(code, str) or not code:
        return message
    return f"{message.rstrip('.')} ({code})" if message else code
