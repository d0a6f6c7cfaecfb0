"""Control tokens that a text only spells.

A tokenizer reads `<|im_start|>` as the token that begins a turn, wherever it stands. A page or the output of a program
could thus end the user's turn and write one of the model's, and `<s>` in a web page would begin a text anew. What users
and tools say is therefore encoded as text, letter by letter the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_OTHERS = ("user", "tool")
"""Roles whose text neither the model nor the environment's author has written."""
_MARK = "\ufdd0"
"""A code point that Unicode keeps free of characters."""
_CUT, _LITERAL = f"{_MARK}\ufdd1", f"{_MARK}\ufdd2"
"""Where a text is cut, so that no token spans the place; and a `_MARK` that the text itself contains."""
_BARRED = re.compile(r"<[|｜].+[|｜]>")
"""Some tokenizers do not declare the tokens of roles special, but name them like the others."""


class ControlTokens:
    """Keeps messages free of control tokens.

    Args:
        tokenizer: A transformers tokenizer.
        place: The token that stands for a picture. An engine would look for the picture, whoever wrote the token.
    """

    def __init__(self, tokenizer: Any, place: str = ""):
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder.values()
        declared = {str(token.content) for token in added if token.special or _BARRED.fullmatch(str(token.content))}
        self._place = _begins([place])
        self._any = _begins({*declared, *tokenizer.all_special_tokens, place})

    def only_spelled(self, message: Mapping[str, Any]) -> Any:
        """Return a message's content, marked where `encode` must not read a control token."""
        begins = self._any if message.get("role") in _OTHERS else self._place
        content = message.get("content", "")
        if isinstance(content, str):
            return _cut(content, begins)
        return [_cut_block(block, begins) for block in content] if isinstance(content, list | tuple) else content

    def encode(self, text: str) -> list[int]:
        """Return the ids of a rendered conversation, without tokens that the tokenizer would add around it."""
        pieces = [piece.replace(_LITERAL, _MARK) for piece in text.split(_CUT)]
        return [token for piece in pieces for token in self._tokenizer.encode(piece, add_special_tokens=False)]


def _begins(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the letters with which tokens begin. Tokens of one letter cannot be cut."""
    known = "|".join(re.escape(name) for name in sorted(names) if len(name) > 1)
    return re.compile(rf"(?={known or '(?!)'})(.)", re.DOTALL)


def _cut(text: str, begins: re.Pattern[str]) -> str:
    return begins.sub(rf"\1{_CUT}", text.replace(_MARK, _LITERAL))


def _cut_block(block: Any, begins: re.Pattern[str]) -> Any:
    is_text = isinstance(block, Mapping) and isinstance(block.get("text"), str)
    return {**block, "text": _cut(block["text"], begins)} if is_text else block
