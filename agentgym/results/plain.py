"""Text from models and tools, made safe to print in a terminal."""

from __future__ import annotations

import re

MAX_CHARS = 2000
"""Longer texts are cut in the middle, with a note."""

# Control characters could move the cursor or colour the rest; lone surrogates cannot be printed at all.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def plain(text: str, max_chars: int | None = MAX_CHARS) -> str:
    """Return text that is safe to print: limited in length, without characters that would control the terminal."""
    if max_chars is not None and len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}\n[… {len(text) - 2 * half} characters not shown …]\n{text[-half:]}"
    return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    """Return the visible symbol of a control character, or the replacement character if it has none."""
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
