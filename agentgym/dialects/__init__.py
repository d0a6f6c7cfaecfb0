"""Dialects: how a model's text becomes tool calls and back. `get_dialect(name)` gives one by name."""

from __future__ import annotations

from difflib import get_close_matches

from agentgym.dialects.base import Dialect, Parsed
from agentgym.dialects.hermes import Hermes
from agentgym.errors import UsageError

_DIALECTS: dict[str, type] = {"hermes": Hermes}

__all__ = ["Dialect", "Parsed", "dialect_names", "get_dialect"]


def dialect_names() -> tuple[str, ...]:
    """Names that `get_dialect` knows."""
    return tuple(_DIALECTS)


def get_dialect(name: str) -> Dialect:
    """Return a dialect by name. Raises `UsageError` naming those there are."""
    if name not in _DIALECTS:
        close = get_close_matches(name, _DIALECTS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"unknown dialect {name!r}; {hint}There are: {', '.join(_DIALECTS)}")
    return _DIALECTS[name]()
