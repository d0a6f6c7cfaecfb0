"""What an author's hooks, tools and grader give back, in the form that messages and records can hold."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, nan
from typing import Any

from agentgym.errors import InfrastructureError, ToolError
from agentgym.messages import Pictured
from agentgym.toolset import MAX_RESULT_CHARS, bounded


def as_text(answer: Any) -> str:
    """Return what a hook answered as the text of a message."""
    return answer if isinstance(answer, str) else bounded(answer, MAX_RESULT_CHARS)


def without_pictures(result: Any) -> tuple[Any, tuple[bytes, ...]]:
    """Return what a tool returned, and apart from it the pictures that came with it."""
    return (result.text, result.pictures) if isinstance(result, Pictured) else (result, ())


def message_of(mistake: ToolError) -> str:
    """Return what a mistake tells the model. Raises `InfrastructureError` if an author's subclass cannot say it."""
    try:
        return str(mistake)
    except Exception as error:
        raise InfrastructureError(f"the message of a {type(mistake).__name__} cannot be read") from error


def finite(values: Mapping[str, Any]) -> dict[str, float]:
    """Return channel values as finite numbers. Anything else would poison every mean it enters, so it is refused.

    Raises:
        InfrastructureError: A value is no finite number.
    """
    found: dict[str, float] = {}
    for name, value in values.items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError, OverflowError):
            found[name] = nan
        if not isfinite(found[name]):
            raise InfrastructureError(f"reward channel {name!r} was given {value!r}, which is not a finite number")
    return found
