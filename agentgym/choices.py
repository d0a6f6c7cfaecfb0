"""Arguments that choose among known names, with errors that list the valid ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

from agentgym.errors import UsageError

T = TypeVar("T")


def one_of(name: str, value: Any, valid: Iterable[Any]) -> Any:
    """Return `value` if it is among `valid`, else raise `UsageError`."""
    if value not in (valid := tuple(valid)):
        raise UsageError(f"{name} must be one of {', '.join(map(str, valid))}, not {value!r}")
    return value


def nearest(name: Any, valid: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the closest known name, or a full stop."""
    close = get_close_matches(str(name), list(valid), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."


def named(what: str, name: Any, valid: Mapping[str, T]) -> T:
    """Return the value of `name` in `valid`; the error suggests the closest name."""
    if isinstance(name, str) and name in valid:
        return valid[name]
    raise UsageError(f"there is no {what} {name!r}{nearest(str(name), valid)} There are: {', '.join(valid)}")


def settings_of(name: str, value: Any) -> dict[str, Any]:
    """Return an argument that holds settings by name, empty for `None`. Raises `UsageError` if it is something else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{name} must hold settings by name, such as {{'size': 5}}, not {value!r:.60}")
    return dict(value)


def some_of(what: str, wanted: Any, valid: Iterable[Any]) -> tuple[Any, ...]:
    """Return the wanted values (one or several) without duplicates; all if `wanted` is `None`."""
    valid = tuple(valid)
    if wanted is None:
        return valid
    asked = (wanted,) if isinstance(wanted, str | int) else tuple(wanted)
    known = ", ".join(map(str, valid))
    if not asked:
        raise UsageError(f"no {what} was given; choose from: {known}")
    for value in asked:
        if value not in valid:
            hint = nearest(value, map(str, valid)) if isinstance(value, str) else "."
            raise UsageError(f"unknown {what} {value!r}{hint} Choose from: {known}")
    return tuple(dict.fromkeys(asked))


def given_apart_from(tasks: object, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices that were given. They conflict with `tasks=...`, which already fixes the tasks."""
    given = {name: value for name, value in choices.items() if value is not None}
    if tasks is not None and given:
        raise UsageError(f"tasks=... was given, so {sorted(given)} cannot be chosen too; give one or the other")
    return given


def limits_from(kind: type[T], given: T | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return limits as a mapping. They may be given as an object, by name, or not at all."""
    names = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType]
    if isinstance(given, kind):
        return {name: getattr(given, name) for name in names}
    if not (given is None or isinstance(given, Mapping)):
        raise UsageError(f"limits are given by name, such as {{{names[0]!r}: 5}}, not as {given!r}")
    if unknown := set(given or ()) - set(names):
        raise UsageError(f"unknown limits {sorted(unknown)}; known: {', '.join(names)}")
    return dict(given or {})
