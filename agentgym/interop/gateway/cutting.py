"""Ends a turn where an agent wants it ended: at a text, or after the first call.

The tokens that are kept are those that were sampled up to there, so their log-probabilities remain the policy's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from agentgym.dialects import Parsed
from agentgym.policy import Generation

Decode = Callable[[Sequence[int]], str]


def stopped(said: Generation, stops: Sequence[str], decode: Decode) -> Generation:
    """Return a turn up to the token that completes the first of some texts, if one occurs in it."""
    if _first(decode(said.ids), stops) is None:
        return said
    found = bisect_left(range(len(said.ids)), True, key=lambda end: _first(decode(said.ids[:end]), stops) is not None)
    return _cut(said, found)


def before_stop(text: str, stops: Sequence[str]) -> str:
    """Return a text up to the first occurrence of any of some texts."""
    return text[: _first(text, stops)]


def after_first_call(said: Generation, parse: Callable[[str], Parsed], decode: Decode) -> Generation:
    """Return a turn up to the token that completes the first of several calls, unless it cannot be told."""
    whole = parse(decode(said.ids))
    if len(whole.calls) < 2:
        return said
    # No call ends before the text besides the calls does, which may be long.
    start = bisect_left(range(len(said.ids)), len(whole.text), key=lambda end: len(decode(said.ids[:end])))
    ends = (end for end in range(start, len(said.ids)) if len(parse(decode(said.ids[:end])).calls) == 1)
    return _cut(said, next(ends, len(said.ids)))


def _cut(said: Generation, end: int) -> Generation:
    if end >= len(said.ids):
        return said
    return replace(said, ids=said.ids[:end], logprobs=said.logprobs[:end], finish="stop")


def _first(text: str, stops: Sequence[str]) -> int | None:
    """Return where the first of some texts begins."""
    return min((at for stop in stops if (at := text.find(stop)) >= 0), default=None)
