"""Splits text into words for indexing and searching, in the same way for all indexes."""

from __future__ import annotations

import re
import unicodedata

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
