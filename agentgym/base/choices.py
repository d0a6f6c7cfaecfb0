"""Arguments that choose among known names, with errors that list the valid ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

from agentgym.base.errors import UsageError

T = TypeVar("T")


def one_of(name: str, value: Any, valid: Iterable[Any]) -> Any:
    """Return `value` if it is among `valid`, else raise `UsageError`."""
    if value not in (valid := tuple(valid)):
        raise UsageError(f"{name} must be one of {', '.join(map(str, valid))}, not {value!r}")
    return value


def nearest(name: Any, valid: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: a suggestion, or a full stop."""
    close = get_close_matches(str(name), list(valid), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."


def named(what: str, name: Any, valid: Mapping[str, T]) -> T:
    """Return the value of `name` in `valid`; the error suggests the closest name."""
    if isinstance(name, str) and name in valid:
        return valid[name]
    raise UsageError(f"there is no {what} {name!r}{nearest(str(name), valid)} There are: {', '.join(valid)}")


def settings_of(name: str, value: Any) -> dict[str, Any]:
    """Return an argument that maps names to settings; empty for `None`. Raises `UsageError` for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{name} must hold settings by name, such as {{'size': 5}}, not {value!r:.60}")
    return dict(value)


def some_of(what: str, choice: Any, valid: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values of `choice` (a value or a sequence) without duplicates; all of `valid` if it is `None`."""
    valid = tuple(valid)
    if choice is None:
        return valid
    values = (choice,) if isinstance(choice, str | int) else tuple(choice)
    valid_names = ", ".join(map(str, valid))
    if not values:
        raise UsageError(f"no {what} was given; choose from: {valid_names}")
    for value in values:
        if value not in valid:
            hint = nearest(value, map(str, valid)) if isinstance(value, str) else "."
            raise UsageError(f"unknown {what} {value!r}{hint} Choose from: {valid_names}")
    return tuple(dict.fromkeys(values))


def explicit_choices(tasks: object, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices that are not `None`. Raises `UsageError` if there are any besides `tasks=...`."""
    explicit = {name: value for name, value in choices.items() if value is not None}
    if tasks is not None and explicit:
        raise UsageError(f"tasks=... was given, so {sorted(explicit)} cannot be chosen too; give one or the other")
    return explicit


def limits_from(kind: type[T], limits: T | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return limits, passed as an object, a mapping or `None`, as a mapping."""
    names = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType]
    if isinstance(limits, kind):
        return {name: getattr(limits, name) for name in names}
    if not (limits is None or isinstance(limits, Mapping)):
        raise UsageError(f"limits must be a mapping such as {{{names[0]!r}: 5}}, not {limits!r}")
    if unknown := set(limits or ()) - set(names):
        raise UsageError(f"unknown limits {sorted(unknown)}; known: {', '.join(names)}")
    return dict(limits or {})


def count_of(number: int, singular: str, many: str = "") -> str:
    """Return a number with its noun: `1 task`, `1,204 tasks`. `many` is an irregular plural."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"
