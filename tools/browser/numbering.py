"""The refs shown to a model: e1, e2, ... in document order. An element keeps its ref for the document's lifetime."""

from __future__ import annotations

import re

PREFIX = re.compile(r"(f\d+)?")


class Numbering:
    """Maps Playwright's refs, which include a frame number that grows with every navigation, to stable ones."""

    def __init__(self) -> None:
        self._document: str | None = None
        self._numbers: dict[str, str] = {}

    def begin(self, document: str) -> None:
        """Start a view; refs restart at e1 when `document` has changed."""
        if document != self._document:
            self._document, self._numbers = document, {}

    def number(self, handle: str) -> str:
        """Return an element's ref, creating one if it has none."""
        return self._numbers.setdefault(handle, f"e{len(self._numbers) + 1}")


def frame_of(handle: str) -> str:
    """Return the frame part of one of Playwright's refs ("f2" of "f2e14", "" of "e14")."""
    match = PREFIX.match(handle)
    return (match[1] if match else "") or ""
