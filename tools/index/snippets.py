"""Extracts the part of a text that best shows why it was found."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.tools.index.tokens import ends_word, fold

SNIPPET_CHARS = 300
_SCANNED_CHARS = 50_000
_PLACES_PER_TERM = 50
_LONG_WORD = 40
_ELLIPSIS = "…"

_Place = tuple[int, int, int]


def snippet(text: str, terms: Sequence[str], width: int = SNIPPET_CHARS) -> str:
    """Return at most `width` characters of a text, around as many different terms as possible, on one line.

    It starts and ends at word boundaries, with an ellipsis where text is left out. Only the first 50,000
    characters are searched.
    """
    scanned = " ".join(text[:_SCANNED_CHARS].split())
    more = len(text) > _SCANNED_CHARS
    if len(scanned) <= width and not more:
        return scanned
    start, end = _window(scanned, _places(scanned, terms), width - 2 * len(_ELLIPSIS))
    before = _ELLIPSIS if start else ""
    after = _ELLIPSIS if more or end < len(scanned) else ""
    return f"{before}{scanned[start:end]}{after}"


def _places(text: str, terms: Sequence[str]) -> list[_Place]:
    """Return the whole-word matches of terms in order, each as start, end and term."""
    folded = fold(text)
    places: list[_Place] = []
    for number, term in enumerate(terms):
        at = folded.find(term)
        for _ in range(_PLACES_PER_TERM):
            if at < 0:
                break
            end = at + len(term)
            if _is_word(folded, at, end):
                places.append((at, end, number))
            at = folded.find(term, end)
    places.sort()
    if len(folded) == len(text):
        return places
    origin = [at for at, character in enumerate(text) for _ in fold(character)]
    return [(origin[start], origin[end - 1] + 1, number) for start, end, number in places]


def _is_word(folded: str, start: int, end: int) -> bool:
    if start and not folded[start - 1].isspace() and not _borders(folded[start - 1], folded[start]):
        return False
    return end == len(folded) or folded[end].isspace() or _borders(folded[end], folded[end - 1])


def _borders(neighbour: str, own: str) -> bool:
    return ends_word(neighbour) or ends_word(own)


def _window(text: str, places: Sequence[_Place], width: int) -> tuple[int, int]:
    if not places:
        return _at_words(text, 0, width)
    first, last = _best_run(places, width)
    # Text before the words is more informative than text after them, yet sentences often start with them.
    lead = max(0, width - (last - first)) // 3
    start = min(max(0, first - lead), max(0, len(text) - width))
    return _at_words(text, start, width, keep=first)


def _best_run(places: Sequence[_Place], width: int) -> tuple[int, int]:
    """Return the span of the matches that fits into `width` and contains the most different terms."""
    counts: dict[int, int] = {}
    best, best_value, left = (places[0][0], min(places[0][1], places[0][0] + width)), (0, 0), 0
    for right, (_, end, term) in enumerate(places):
        counts[term] = counts.get(term, 0) + 1
        while left < right and end - places[left][0] > width:
            gone = places[left][2]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            left += 1
        value = (len(counts), right - left + 1)
        if value > best_value and end - places[left][0] <= width:
            best, best_value = (places[left][0], end), value
    return best


def _at_words(text: str, start: int, width: int, keep: int | None = None) -> tuple[int, int]:
    """Return a window aligned to word boundaries, but not past `keep`; very long words are cut."""
    if start and not text[start - 1].isspace():
        border = text.find(" ", start, min(start + _LONG_WORD, start + width if keep is None else keep))
        start = border + 1 if border >= 0 else start
    end = min(start + width, len(text))
    if end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        border = text.rfind(" ", max(start + 1, end - _LONG_WORD), end)
        end = border if border >= 0 else end
    return start, end
