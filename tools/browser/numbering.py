"""Refs as a model sees them: e1, e2, ... in document order, kept by an element as long as its document lives."""

from __future__ import annotations

import re

PREFIX = re.compile(r"(f\d+)?")


class Numbering:
    """Numbers for Playwright's refs. Playwright's own carry a frame number that grows with every navigation."""

    def __init__(self) -> None:
        self._document: str | None = None
        self._numbers: dict[str, str] = {}

    def begin(self, document: str) -> None:
        """Start a view; numbers begin again at e1 when `document` is another one than before."""
        if document != self._document:
            self._document, self._numbers = document, {}

    def number(self, handle: str) -> str:
        """Return the number of an element, a new one if it has none."""
        return self._numbers.setdefault(handle, f"e{len(self._numbers) + 1}")


def frame_of(handle: str) -> str:
    """Return the frame part of one of Playwright's refs ("f2" of "f2e14", "" of "e14")."""
    match = PREFIX.match(handle)
    return (match[1] if match else "") or ""
