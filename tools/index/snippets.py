"""Extracts the part of a text that best shows why it was found."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MAX_TERMS = 64
"""Maximum distinct words of a query; later ones have no effect."""
MAX_TERM_CHARS = 64
"""Longer words are truncated, in documents and in queries."""

_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Scripts without spaces do not separate words, so each character is a word.
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_IDEOGRAPH = re.compile(rf"[{_IDEOGRAPHS}]")

_NOT_DECOMPOSED = {
    "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "ŧ": "t", "ŋ": "n", "þ": "th", "æ": "ae", "œ": "oe",
}  # fmt: skip


class _Folding(dict[int, str]):
    """Maps characters to their folded forms, computed on first use."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_character(chr(code))
        return folded


def _fold_character(character: str) -> str:
    if unicodedata.category(character) == "Mn":
        return ""
    parts = unicodedata.normalize("NFKD", character.casefold())
    bare = "".join(part for part in parts if not "\u0300" <= part <= "\u036f")
    return "".join(_NOT_DECOMPOSED.get(part, part) for part in unicodedata.normalize("NFC", bare).casefold())


_FOLDING = _Folding()


def fold(text: str) -> str:
    """Return lower-case text without accents: "Ştefan Ørsted" becomes "stefan orsted"."""
    return text.lower() if text.isascii() else text.translate(_FOLDING)


def tokens(text: str) -> list[str]:
    """Return the words of a text, folded, in order."""
    words = _ASCII_WORD.findall(text.lower()) if text.isascii() else _WORD.findall(text.translate(_FOLDING))
    return [word[:MAX_TERM_CHARS] for word in words] if len(text) > MAX_TERM_CHARS else words


def query_terms(query: str) -> tuple[str, ...]:
    """Return the distinct words of a query, in order, at most `MAX_TERMS` of them."""
    return tuple(dict.fromkeys(tokens(query)))[:MAX_TERMS]


def ends_word(character: str) -> bool:
    """Whether this (folded) character cannot continue a word."""
    return not character.isalnum() or (not character.isascii() and _IDEOGRAPH.match(character) is not None)


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
