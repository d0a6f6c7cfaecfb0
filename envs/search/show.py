"""Formats hits and pages for a policy: numbered, in few tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentgym.tools.index import Hit, Page

_WINDOW = 160
_MAX_FOUND = 5


def show_hits(hits: Sequence[Hit], numbers: Sequence[int], texts: Sequence[str]) -> str:
    """Return the hits of a search, one line each: number, title and text."""
    if not hits:
        return "No page matches. Try other words."
    return "\n".join(f"[{n}] {hit.title}: {one_line(text)}" for hit, n, text in zip(hits, numbers, texts, strict=True))


def show_page(page: Page, number: int | None) -> str:
    """Return the text of one part of a page, with its title and the number of remaining characters."""
    head = page.title if number is None else f"[{number}] {page.title}"
    more = "" if page.end >= page.length else f"\n({page.length - page.end} more characters: more)"
    return f"{head}\n{page.text}{more}"


def show_found(page: Page, words: str) -> str:
    """Return the places where `words` occur in a page, each with the text around it."""
    places = [match.start() for match in re.finditer(re.escape(words.strip()), page.text, re.IGNORECASE)]
    if not places:
        return f"{page.title} has no {words.strip()!r}."
    lines, last = [], -_WINDOW
    for place in places:
        if place - last >= _WINDOW and len(lines) < _MAX_FOUND:
            lines.append(_around(page.text, place))
            last = place
    return "\n".join([f"{len(places)} in {page.title}:", *lines])


def one_line(text: str) -> str:
    """Return `text` with every run of white space replaced by one space."""
    return " ".join(text.split())


def _around(text: str, place: int) -> str:
    start, end = max(0, place - _WINDOW // 2), min(len(text), place + _WINDOW)
    return f"{'…' if start else ''}{one_line(text[start:end])}{'…' if end < len(text) else ''}"
