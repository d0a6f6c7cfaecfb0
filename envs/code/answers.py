"""Normalises the code and answers that a model writes: strips code fences, converts JSON values to text."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from agentgym.base.errors import ToolError

MAX_SOURCE_CHARS = 100_000

_FENCED = re.compile(r"\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*", re.DOTALL)
_PATH = re.compile(r"[\w./-]{1,200}\.py")


def source_of(text: str) -> str:
    """Return source code without the fence around it. Raises `ToolError` if it is too long."""
    if len(text) > MAX_SOURCE_CHARS:
        raise ToolError(f"The code has {len(text)} characters; at most {MAX_SOURCE_CHARS} are allowed.")
    fenced = _FENCED.fullmatch(text)
    return fenced[1] if fenced else text


def is_path(text: str) -> bool:
    """Whether an answer is the path of a Python file rather than source."""
    return _PATH.fullmatch(text.strip()) is not None


def defines(code: str, name: str) -> bool:
    """Whether code appears to define `name` at its top level."""
    return re.search(rf"^(?:async )?(?:def|class) {name}\b|^{name}\s*[:=]", code, re.MULTILINE) is not None


def _as_text(answer: Any) -> Any:
    if isinstance(answer, str):
        return answer
    try:
        return repr(answer)
    except RecursionError:
        raise ValueError("nested too deeply") from None


AnswerText = Annotated[str, BeforeValidator(_as_text)]
"""An answer as text; a JSON value is converted to a Python literal."""
