"""Cutting a template into text, outputs and tags."""

import re
from dataclasses import dataclass

from quillet.errors import TemplateSyntaxError

_TOKEN = re.compile(r"\{\{(-?)(.*?)(-?)\}\}|\{%(-?)(.*?)(-?)%\}|\{#.*?#\}", re.DOTALL)
_OPEN = re.compile(r"\{\{|\{%|\{#")

TEXT, OUTPUT, TAG = "text", "output", "tag"


@dataclass(frozen=True)
class Token:
    """A piece of a template."""

    kind: str
    value: str
    line: int


def tokenize(source):
    """Return the tokens of a template. Raises `TemplateSyntaxError` for a tag that is not closed."""
    tokens = []
    position = 0
    strip_next = False
    for found in _TOKEN.finditer(source):
        strip_before = "-" in (found[1], found[4])
        _add_text(tokens, source, position, found.start(), strip_next, strip_before)
        line = source.count("\n", 0, found.start()) + 1
        if found[2] is not None:
            tokens.append(Token(OUTPUT, found[2].strip(), line))
        elif found[5] is not None:
            tokens.append(Token(TAG, found[5].strip(), line))
        strip_next = "-" in (found[3], found[6])
        position = found.end()
    _add_text(tokens, source, position, len(source), strip_next, False)
    return tokens


def _add_text(tokens, source, start, end, strip_left, strip_right):
    text = source[start:end]
    left = _OPEN.search(text)
    if left is not None:
        raise TemplateSyntaxError(f"{left[0]!r} is not closed", source.count("\n", 0, start + left.start()) + 1)
    line = source.count("\n", 0, start) + 1
    if strip_left:
        text = text.lstrip()
    if strip_right:
        text = text.rstrip()
    if text:
        tokens.append(Token(TEXT, text, line))
