"""Spellings of the same text: Unicode forms, typography, and the marks around an answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

_TYPOGRAPHY: Mapping[str, str] = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\ufe58\ufe63",
    "'": "\u2018\u2019\u201a\u201b\u2032\u02bc\u00b4\u2039\u203a",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u300c\u300d\u300e\u300f\u301d\u301e",
    ".": "\u3002",
    ",": "\u3001",
    "[": "\u3010\u3014",
    "]": "\u3011\u3015",
    "<": "\u3008\u300a",
    ">": "\u3009\u300b",
    "~": "\u301c",
    " ": "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "...": "\u2026",
    "": "\u00ad\u200b\u200e\u200f\u2060\ufeff",
}
"""Each form with the characters that are folded into it."""
_FOLDED = {ord(character): form for form, characters in _TYPOGRAPHY.items() for character in characters}
_WIDE = re.compile("[\uff01-\uff9f\uffe0-\uffee]+")
_FENCE = re.compile(r"```[ \t]*[\w+-]*[ \t]*\n(.*?)\n?[ \t]*(?:```|\Z)|```(?!`)([^`\n]+)```", re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")


def nfc(text: str) -> str:
    """Return `text` in Unicode's normal form C, which has one spelling for an accented letter."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def fold(text: str) -> str:
    """Return `text` in form C with plain typography, such as `-` for every dash and minus.

    Dashes, minus signs, quotes, full- and half-width forms, CJK punctuation and wide spaces become ASCII where ASCII
    has them; invisible characters disappear. Letters, accents and case stay.
    """
    if text.isascii():
        return text
    narrow = _WIDE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return unicodedata.normalize("NFC", narrow.translate(_FOLDED))


def fenced(text: str) -> list[str]:
    """Return the contents of the code fences in `text`. The last one may be open."""
    return [block or line for block, line in _FENCE.findall(text)]


def without_marks(text: str) -> str:
    """Return `text` without the code fence or backticks that enclose all of it."""
    text = text.strip()
    marked = _FENCE.match(text) or _INLINE.match(text)
    if marked is None or marked.end() < len(text):
        return text
    return next(part for part in marked.groups() if part is not None).strip()


def plain(text: str) -> str:
    """Return `text` without case, surrounding quotes, surplus spaces and final full stop."""
    words = " ".join(text.split())
    words = words[:-1].rstrip() if words.endswith(".") else words
    while len(words) >= 2 and words[0] == words[-1] and words[0] in "\"'`":
        words = words[1:-1].strip()
    return words.casefold()
