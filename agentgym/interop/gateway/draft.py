"""`Draft`: what the model has said so far of a turn that is still being sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym.dialects import Dialect
from agentgym.interop.gateway.cutting import before_stop
from agentgym.toolset import Toolset

_SHARE = 32
"""The text is read again when the turn has grown by one in so many tokens: reading it each time would take long."""

_CUT_CHARACTER = "\ufffd"
"""What the bytes of a character that is not complete are decoded to."""

Read = Callable[[Sequence[int]], str]


class Draft:
    """The text at the beginning of a turn that is certain: it is what the answer begins with, whatever follows.

    Args:
        on_growth: Called when there may be more text.
    """

    def __init__(self, on_growth: Callable[[], None]):
        self._on_growth = on_growth
        self._read: Read | None = None
        self._ids: list[int] = []
        self._next, self._text = 1, ""

    def begin(self, read: Read) -> None:
        """Begin the turn. `read` returns the certain text of its first tokens."""
        self._read = read

    def add(self, ids: Sequence[int]) -> None:
        """Add sampled tokens."""
        self._ids += ids
        if len(self._ids) >= self._next:
            self._on_growth()

    def text(self) -> str:
        """Return the text. It begins with what was returned before."""
        if self._read is not None and len(self._ids) >= self._next:
            self._next = len(self._ids) + len(self._ids) // _SHARE + 1
            found = self._read(self._ids)
            if found.startswith(self._text):
                self._text = found
        return self._text


def certain(text: str, stops: Sequence[str], unsaid: str) -> str:
    """Return the beginning of a turn that is sure to be said.

    Args:
        text: The tokens so far, as text.
        stops: Texts at which the turn ends.
        unsaid: What is not part of the turn if it ends with it.
    """
    text = before_stop(text, stops).rstrip(_CUT_CHARACTER)
    endings = [ending[:size] for ending in (*stops, unsaid) for size in range(1, len(ending) + 1)]
    return text[: len(text) - max((len(one) for one in endings if text.endswith(one)), default=0)]


def certain_of_calls(dialect: Dialect, text: str, tools: Toolset) -> str:
    """Return the beginning of a turn that is no part of a call. A dialect that does not say has none."""
    settled: Callable[[str, Toolset], int] | None = getattr(dialect, "settled", None)
    return text[: 0 if settled is None else settled(text, tools)]
