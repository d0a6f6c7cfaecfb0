"""What a request may ask for besides messages and tools. Each option has its effect, has none, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym.interop.gateway.errors import Refused

OF_SAMPLING = frozenset(
    ("temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty")
)
"""Without effect: the log-probabilities must be those of the policy as it is set."""

OF_MODELS = frozenset(("reasoning", "reasoning_effort", "verbosity", "prediction"))
"""Without effect: for models of one provider."""

LABELS = frozenset(
    (
        *("metadata", "store", "user", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
    )
)
"""About the request, not the answer."""

_READ = frozenset(
    (
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "n", "max_tokens"),
        *("max_completion_tokens", "stream", "stream_options", "stop", "logprobs"),
    )
)
"""Read elsewhere (`ChatRequest.of`)."""

_MOST_STOPS = 4


def check_options(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of a chat request that have no effect, in order. Raises `Refused` for what cannot be done."""
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        if name in _ONLY:
            allowed, reason = _ONLY[name]
            if not allowed(value):
                raise Refused(f"{name!r} cannot be {value!r:.100}: {reason}", param=name)
        elif name not in OF_SAMPLING | OF_MODELS | LABELS | _READ:
            raise Refused(f"{name!r:.100} is not supported by this gateway; leave it out", param=name[:100])
    return tuple(name for name in given if name in OF_SAMPLING | OF_MODELS)


_FREE_FORM = "the model's text is sampled freely, and cannot be held to a form"
_SOUND = "the model writes text"
_ONLY: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "response_format": (lambda given: given == {"type": "text"}, _FREE_FORM),
    "logit_bias": (lambda given: not given, "what is sampled would not be the policy's own"),
    "top_logprobs": (lambda given: given == 0, "only the log-probabilities of the sampled tokens are known"),
    "modalities": (lambda given: given == ["text"], _SOUND),
    "functions": (lambda given: not given, "give 'tools' instead"),
    "function_call": (lambda given: given in ("auto", "none"), "give 'tools' and 'tool_choice' instead"),
}
"""Options that may be given with some values only, and why."""


def flag(body: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """Return an option that is true or false."""
    given = body.get(name)
    if given is None:
        return default
    if not isinstance(given, bool):
        raise Refused(f"{name!r} must be true or false, not {given!r:.100}", param=name)
    return given


def limit_of(body: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of some options that is given: the most tokens to sample."""
    for name in names:
        if (given := body.get(name)) is not None:
            if not isinstance(given, int) or isinstance(given, bool) or given < 1:
                raise Refused(f"{name!r} must be a whole number from 1, not {given!r:.100}", param=name)
            return given
    return None


def stops_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts at which the model's turn ends."""
    given = body.get("stop") or ()
    stops = (given,) if isinstance(given, str) else given
    if not isinstance(stops, list | tuple) or not all(isinstance(stop, str) and stop for stop in stops):
        raise Refused("'stop' must be text or a list of texts", param="stop")
    if len(stops) > _MOST_STOPS:
        raise Refused(f"'stop' may have {_MOST_STOPS} texts at most, not {len(stops)}", param="stop")
    return tuple(stops)


def wants_tools(body: Mapping[str, Any]) -> bool:
    """Whether the model may call tools."""
    choice = body.get("tool_choice")
    if choice in (None, "auto", "none"):
        return choice != "none"
    raise Refused(
        f"'tool_choice' cannot be {choice!r:.100}: the model decides by itself whether it calls a tool, as it does in "
        "training; there are 'auto' and 'none'",
        param="tool_choice",
    )
