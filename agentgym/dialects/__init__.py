"""Dialects: how a model's text becomes tool calls and back. `get_dialect(name)` gives one by name."""

from __future__ import annotations

from importlib import import_module

from agentgym.choices import nearest
from agentgym.dialects.base import Dialect, Parsed
from agentgym.errors import UsageError

DIALECTS: dict[str, str] = {
    "hermes": "agentgym.dialects.hermes:Hermes",
    "tags": "agentgym.dialects.tags:Tags",
    "fenced": "agentgym.dialects.fenced:Fenced",
    "compact": "agentgym.dialects.compact:Compact",
}
"""Names, and where the class is. Add yours here, or pass its "module:Class" as the name."""

_NEEDS_TOKENIZER = (
    "the 'template' dialect reads a model's own chat template, so it needs the tokenizer: "
    "pass dialect=TemplateDialect(tokenizer), from agentgym.dialects.template"
)

__all__ = ["DIALECTS", "Dialect", "Parsed", "dialect_names", "get_dialect"]


def dialect_names() -> tuple[str, ...]:
    """Names that `get_dialect` knows."""
    return tuple(DIALECTS)


def get_dialect(name: str) -> Dialect:
    """Return a dialect by name, or by "module:Class". Raises `UsageError` naming those there are."""
    if name == "template":
        raise UsageError(_NEEDS_TOKENIZER)
    if name not in DIALECTS and ":" not in name:
        raise UsageError(
            f'unknown dialect {name!r}{nearest(name, DIALECTS)} There are: {", ".join(DIALECTS)}, or "module:Class"'
        )
    module, _, class_name = DIALECTS.get(name, name).partition(":")
    try:
        dialect = getattr(import_module(module), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"dialect {name!r} cannot be loaded: {error}") from error
    return _checked(name, dialect)


def _checked(name: str, dialect: object) -> Dialect:
    needed = ("name", "instructions", "parse", "render", "result", "problem")
    if missing := [attribute for attribute in needed if not hasattr(dialect, attribute)]:
        raise UsageError(f"{name!r} is no dialect: it has no {', '.join(missing)}")
    return dialect  # type: ignore[return-value]
