"""Entries that a task source excludes: each is reported with a reason, and a broken entry does not stop the others.

A source fills a `Quarantine` while it reads and exposes the contents as `left_out`. With `strict`, the first broken
entry is an error instead.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from agentgym.errors import AgentGymError, UsageError
from agentgym.foreign.errors import describe, place_of

_REASON_CHARS = 500
_log = logging.getLogger(__name__)


class Why(StrEnum):
    """The reason why an entry yields no task."""

    BROKEN = "broken"
    """A field, a file or the gold is missing or wrong."""
    REPEATED = "repeated"
    """An earlier entry has the same problem or the same id."""
    UNSUPPORTED = "unsupported"
    """The entry is valid but cannot be staged or graded here."""
    DEGENERATE = "degenerate"
    """An empty or constant answer would be correct."""


@dataclass(frozen=True)
class LeftOut:
    """An entry that yields no task."""

    where: str
    """File and line (or number in its list)."""
    reason: str
    why: Why = Why.BROKEN

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class Unusable(Exception):
    """An entry yields no task; the message gives the reason without the entry's location."""

    def __init__(self, reason: str, why: Why = Why.BROKEN):
        super().__init__(reason)
        self.why = why


@runtime_checkable
class LeavesOut(Protocol):
    """A task source that may have excluded entries."""

    @property
    def left_out(self) -> Sequence[LeftOut]:
        """The entries that yield no task."""
        ...


class Quarantine:
    """Collects the entries of one source that yield no task.

    Args:
        source: Name of the source, as the user gave it.
        strict: Raise `UsageError` for the first broken entry.
    """

    def __init__(self, source: str, strict: bool = False):
        self._source, self._strict = source, strict
        self._entries: list[LeftOut] = []

    @property
    def entries(self) -> tuple[LeftOut, ...]:
        """The entries left out so far."""
        return tuple(self._entries)

    def add(self, where: str, reason: str, why: Why = Why.BROKEN) -> None:
        """Exclude an entry. Raises `UsageError` for a broken entry in strict mode."""
        entry = LeftOut(_printable(where), _shortened(_printable(" ".join(reason.split()))), why)
        if self._strict and why is Why.BROKEN:
            raise UsageError(f"{entry} (without strict, it is left out)")
        self._entries.append(entry)

    @contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Exclude the entry at `where` if the block raises `Unusable` or any unforeseen error."""
        try:
            yield
        except Unusable as error:
            self.add(where, str(error), error.why)
        except UnicodeEncodeError:
            self.add(where, "its text holds half of a character (a lone surrogate)")
        except (AgentGymError, MemoryError):
            raise
        except Exception as error:  # one bad entry must not lose the others
            self.add(where, f"it cannot be read: {describe(error)}{place_of(error)}")

    def close(self, kept: int) -> None:
        """Log a one-line summary of the excluded entries, if any.

        Raises:
            UsageError: No entry is usable.
        """
        if not kept:
            raise UsageError(self._nothing_kept())
        if self._entries:
            _log.warning("%s: %s", self._source, counted(self._entries, kept))

    def _nothing_kept(self) -> str:
        if not self._entries:
            return f"{self._source}: there is no entry"
        return f"{self._source}: no entry of {len(self._entries)} can be used; the first: {self._entries[0]}"


def _shortened(reason: str) -> str:
    """Return a shortened reason, which may quote the entry."""
    return reason if len(reason) <= _REASON_CHARS else f"{reason[:_REASON_CHARS]}…"


def _printable(text: str) -> str:
    """Return a text on one line: file names and entries may contain line breaks and undecodable bytes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def counted(entries: Sequence[LeftOut], kept: int) -> str:
    """Return a one-line summary of the excluded entries by reason, with the first broken one as an example."""
    counts = Counter(entry.why for entry in entries)
    summary = f"{len(entries)} of {len(entries) + kept} entries are left out ("
    summary += ", ".join(f"{counts[why]} {why}" for why in Why if counts[why]) + ")"
    first = next((entry for entry in entries if entry.why is Why.BROKEN), None)
    return f"{summary}; the first broken one: {first}" if first else summary
