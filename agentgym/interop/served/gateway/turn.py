"""The text of a sampled turn: where to cut it, and which part of it is certain while it is still being sampled.

A cut turn keeps the sampled tokens before the cut, so their log-probabilities remain the policy's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from agentgym.core.dialects import Dialect, Parsed
from agentgym.core.policy import Generation
from agentgym.core.toolset import Toolset

_SHARE = 32
"""The text is decoded again after the turn has grown by one part in 32: decoding after each token would be slow."""

_CUT_CHARACTER = "\ufffd"
"""Decoded from an incomplete character."""

Decode = Callable[[Sequence[int]], str]


def cut_at_stop(turn: Generation, stops: Sequence[str], decode: Decode) -> Generation:
    """Return a turn, cut after the token that completes the first stop text, if there is one."""
    if _first_place(decode(turn.ids), stops) is None:
        return turn
    sizes = range(len(turn.ids))
    return _cut(
        turn, bisect_left(sizes, True, key=lambda size: _first_place(decode(turn.ids[:size]), stops) is not None)
    )


def cut_after_call(turn: Generation, parse: Callable[[str], Parsed], decode: Decode) -> Generation:
    """Return a turn with several calls, cut after the token that completes the first, if that can be found."""
    whole = parse(decode(turn.ids))
    if len(whole.calls) < 2:
        return turn
    # No call is complete before the text outside of calls, which may be long.
    start = bisect_left(range(len(turn.ids)), len(whole.text), key=lambda size: len(decode(turn.ids[:size])))
    sizes = (size for size in range(start, len(turn.ids)) if len(parse(decode(turn.ids[:size])).calls) == 1)
    return _cut(turn, next(sizes, len(turn.ids)))


def before_stop(text: str, stops: Sequence[str]) -> str:
    """Return a text up to its first stop text."""
    return text[: _first_place(text, stops)]


def _cut(turn: Generation, size: int) -> Generation:
    if size >= len(turn.ids):
        return turn
    return replace(turn, ids=turn.ids[:size], logprobs=turn.logprobs[:size], finish="stop")


def _first_place(text: str, stops: Sequence[str]) -> int | None:
    """Return the position of the first stop text."""
    return min((place for stop in stops if (place := text.find(stop)) >= 0), default=None)


class TurnDraft:
    """The certain text of a turn that is still being sampled: the reply begins with it, whatever follows.

    Args:
        on_growth: Called when there may be more text.
    """

    def __init__(self, on_growth: Callable[[], None]):
        self._on_growth = on_growth
        self._read: Decode | None = None
        self._ids: list[int] = []
        self._next_size, self._text = 1, ""

    def begin(self, read: Decode) -> None:
        """Begin the turn. `read` returns the certain text of its first tokens."""
        self._read = read

    def add(self, ids: Sequence[int]) -> None:
        """Add sampled tokens."""
        self._ids += ids
        if len(self._ids) >= self._next_size:
            self._on_growth()

    def text(self) -> str:
        """Return the text. It extends the text that was returned before."""
        if self._read is not None and len(self._ids) >= self._next_size:
            self._next_size = len(self._ids) + len(self._ids) // _SHARE + 1
            text = self._read(self._ids)
            if text.startswith(self._text):
                self._text = text
        return self._text


def certain_text(text: str, stops: Sequence[str], ending: str) -> str:
    """Return the certain beginning of a turn.

    Args:
        text: The text of the tokens so far.
        stops: Texts that end the turn.
        ending: Text that is cut from the end of a turn.
    """
    text = before_stop(text, stops).rstrip(_CUT_CHARACTER)
    beginnings = [end[:size] for end in (*stops, ending) for size in range(1, len(end) + 1)]
    return text[: len(text) - max((len(part) for part in beginnings if text.endswith(part)), default=0)]


def certain_text_of_calls(dialect: Dialect, text: str, tools: Toolset) -> str:
    """Return the part of a turn before any call; empty for a dialect without `settled`."""
    settled: Callable[[str, Toolset], int] | None = getattr(dialect, "settled", None)
    return text[: 0 if settled is None else settled(text, tools)]
