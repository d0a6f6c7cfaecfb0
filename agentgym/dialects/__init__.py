"""Dialects translate a model's text into tool calls and back. `get_dialect(name)` returns one by name."""

from __future__ import annotations

from agentgym.choices import nearest
from agentgym.dialects.base import Dialect, Parsed
from agentgym.errors import UsageError
from agentgym.loading import load_named

DIALECTS: dict[str, str] = {
    "hermes": "agentgym.dialects.hermes:Hermes",
    "tags": "agentgym.dialects.tags:Tags",
    "fenced": "agentgym.dialects.fenced:Fenced",
    "compact": "agentgym.dialects.compact:Compact",
    "native": "agentgym.dialects.native:Native",
}
"""The location of each dialect's class, by name. Add yours here, or pass its "module:Class" as the name."""

_NEEDS_TOKENIZER = (
    "the 'template' dialect reads a model's own chat template, so it needs the tokenizer: "
    "pass dialect=TemplateDialect(tokenizer), from agentgym.dialects.template"
)

__all__ = ["DIALECTS", "Dialect", "Parsed", "dialect_names", "get_dialect"]


def dialect_names() -> tuple[str, ...]:
    """Return the names that `get_dialect` accepts."""
    return tuple(DIALECTS)


def get_dialect(name: str) -> Dialect:
    """Return a dialect by name, or by "module:Class". Raises `UsageError` listing the available names."""
    if name == "template":
        raise UsageError(_NEEDS_TOKENIZER)
    if name not in DIALECTS and ":" not in name:
        raise UsageError(
            f'unknown dialect {name!r}{nearest(name, DIALECTS)} There are: {", ".join(DIALECTS)}, or "module:Class"'
        )
    make = load_named(DIALECTS.get(name, name), "a dialect class")
    try:
        dialect = make()
    except (TypeError, ValueError) as error:
        raise UsageError(f"dialect {name!r} cannot be made: {error}") from error
    return _checked(name, dialect)


def _checked(name: str, dialect: object) -> Dialect:
    needed = ("name", "instructions", "parse", "render", "result", "problem")
    if missing := [attribute for attribute in needed if not hasattr(dialect, attribute)]:
        raise UsageError(f"{name!r} is not a dialect: it has no {', '.join(missing)}")
    return dialect  # type: ignore[return-value]
