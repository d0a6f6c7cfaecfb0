"""Keeps text of users and tools from being tokenised as control tokens.

A tokenizer turns every `<|im_start|>` into the token that begins a turn. A web page or a program's output could thus
end the user's turn and forge one of the model's. Text of users and tools is therefore encoded as plain text, unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_OTHERS = ("user", "tool")
"""Roles whose text comes from outside: not from the model or the environment's author."""
_MARK = "\ufdd0"
"""A Unicode noncharacter."""
_CUT, _LITERAL = f"{_MARK}\ufdd1", f"{_MARK}\ufdd2"
"""Where to split a text, so that no token spans the split; and an escaped `_MARK` of the text itself."""
_BARRED = re.compile(r"<[|｜].+[|｜]>")
"""Some tokenizers do not declare role tokens as special, but follow this naming."""


class ControlTokens:
    """Keeps messages free of control tokens.

    Args:
        tokenizer: A transformers tokenizer.
        place: The picture placeholder. It is escaped for all roles, since an engine would expect a picture for it.
    """

    def __init__(self, tokenizer: Any, place: str = ""):
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder.values()
        declared = {str(token.content) for token in added if token.special or _BARRED.fullmatch(str(token.content))}
        self._place = _begins([place])
        self._any = _begins({*declared, *tokenizer.all_special_tokens, place})

    def only_spelled(self, message: Mapping[str, Any]) -> Any:
        """Return a message's content, marked where `encode` must not produce a control token."""
        begins = self._any if message.get("role") in _OTHERS else self._place
        content = message.get("content", "")
        if isinstance(content, str):
            return _cut(content, begins)
        return [_cut_block(block, begins) for block in content] if isinstance(content, list | tuple) else content

    def encode(self, text: str) -> list[int]:
        """Return the ids of a rendered conversation, without the tokens that the tokenizer would add around it."""
        pieces = [piece.replace(_LITERAL, _MARK) for piece in text.split(_CUT)]
        return [token for piece in pieces for token in self._tokenizer.encode(piece, add_special_tokens=False)]


def _begins(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for the first letters of tokens. A token of one letter cannot be split."""
    alternatives = "|".join(re.escape(name) for name in sorted(names) if len(name) > 1)
    return re.compile(rf"(?={alternatives or '(?!)'})(.)", re.DOTALL)


def _cut(text: str, begins: re.Pattern[str]) -> str:
    return begins.sub(rf"\1{_CUT}", text.replace(_MARK, _LITERAL))


def _cut_block(block: Any, begins: re.Pattern[str]) -> Any:
    is_text = isinstance(block, Mapping) and isinstance(block.get("text"), str)
    return {**block, "text": _cut(block["text"], begins)} if is_text else block
