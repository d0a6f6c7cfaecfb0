"""Makes an endpoint policy from its name on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.errors import UsageError, require
from agentgym.trainers.endpoint.policy import EndpointPolicy
from agentgym.trainers.endpoint.settings import read_settings

_NAME = re.compile(r"openai:(.+?)@(https?://\S+)")


def load(name: str, words: Sequence[str], defaults: Mapping[str, Any]) -> EndpointPolicy:
    """Return the policy `openai:MODEL@URL`.

    Args:
        name: The name.
        words: The words of `--endpoint`.
        defaults: Settings that the words override.

    Raises:
        MissingExtra: aiohttp is not installed.
        UsageError: The name or a setting cannot be used.
    """
    require("aiohttp", "endpoint")
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"{name!r} must be openai:MODEL@URL, such as openai:my-model@http://localhost:8000/v1")
    return EndpointPolicy(match[1], match[2], read_settings(words, defaults))
