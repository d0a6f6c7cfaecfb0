"""Dialects translate a model's text into tool calls and back. `get_dialect(name)` returns one by name."""

from __future__ import annotations

from agentgym.base.choices import nearest
from agentgym.base.components import TEMPLATE_DIALECT
from agentgym.base.errors import UsageError, require
from agentgym.base.loading import load_named
from agentgym.core.dialects.base import Dialect, Parsed

DIALECTS: dict[str, str] = {
    "hermes": "agentgym.core.dialects.hermes:Hermes",
    "tags": "agentgym.core.dialects.tags:Tags",
    "fenced": "agentgym.core.dialects.fenced:Fenced",
    "compact": "agentgym.core.dialects.compact:Compact",
    "native": "agentgym.core.dialects.native:Native",
}
"""Import path of each dialect's class except `TEMPLATE`, by name. Add yours here, or pass its "module:Class"."""

TEMPLATE = "template"
"""The dialect of a model's own chat template. Its full name includes the model: "template:MODEL"."""

_NEEDS_MODEL = (
    "the dialect 'template' reads a model's own chat template, so it needs a policy with one (--policy FOLDER, "
    "org/name or vllm:MODEL), or the model in its name: template:MODEL. In Python, dialect=TemplateDialect(tokenizer) "
    "does too. A chat endpoint applies its own template: leave its dialect at native"
)

__all__ = [
    "DIALECTS",
    "TEMPLATE",
    "Dialect",
    "Parsed",
    "checked_dialect",
    "dialect_names",
    "get_dialect",
    "is_template",
]


def dialect_names() -> tuple[str, ...]:
    """Return the names that `get_dialect` accepts."""
    return tuple(DIALECTS)


def get_dialect(name: str) -> Dialect:
    """Return a dialect by name, by "template:MODEL", or by "module:Class".

    Raises `UsageError` listing the available names.
    """
    if name == TEMPLATE:
        raise UsageError(_NEEDS_MODEL)
    if is_template(name):
        require("transformers", "train")
        return load_named(TEMPLATE_DIALECT, "a function")(name)
    if name not in DIALECTS and ":" not in name:
        raise UsageError(
            f"unknown dialect {name!r}{nearest(name, DIALECTS)} There are: {', '.join(DIALECTS)}, {TEMPLATE}, or "
            '"module:Class"'
        )
    make = load_named(DIALECTS.get(name, name), "a dialect class")
    try:
        dialect = make()
    except (TypeError, ValueError) as error:
        raise UsageError(f"dialect {name!r} cannot be made: {error}") from error
    return checked_dialect(dialect, name)


def is_template(name: str) -> bool:
    """Whether this is the name of the dialect that leaves the tools to the model's chat template."""
    return name.partition(":")[0] == TEMPLATE


def checked_dialect(dialect: object, name: str | None = None) -> Dialect:
    """Return `dialect` if it has a dialect's methods. Raises `UsageError` naming a missing one."""
    needed = ("name", "instructions", "parse", "render", "result", "problem")
    if missing := [attribute for attribute in needed if not hasattr(dialect, attribute)]:
        raise UsageError(f"{name or dialect!r} is not a dialect: it has no {', '.join(missing)}")
    return dialect  # type: ignore[return-value]
