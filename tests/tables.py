"""Tables of cases in one test, of which every failing row is reported, not the first alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agentgym.errors import UsageError

MAX_CHARS = 300


def refusal(call: Callable[[], object], error: type[BaseException] = UsageError) -> str:
    """Return the text of the error that a call must raise."""
    try:
        result = call()
    except error as refused:
        return str(refused)
    raise AssertionError(f"{error.__name__} was not raised, and {result!r:.{MAX_CHARS}} returned")


def unrefused(
    rows: Iterable[tuple[Any, str]], call: Callable[[Any], object], error: type[BaseException] = UsageError
) -> list[str]:
    """Return the rows for which a call does not raise an error with the row's words in its text."""
    wrong: list[str] = []
    for value, words in rows:
        try:
            text = refusal(lambda value=value: call(value), error)
        except AssertionError as accepted:
            wrong.append(f"{value!r:.{MAX_CHARS}}: {accepted}")
        else:
            wrong += [] if words in text else [f"{value!r:.{MAX_CHARS}}: {words!r} is not in {text!r}"]
    return wrong


def differing(rows: Iterable[tuple[Any, Any]], call: Callable[[Any], object]) -> list[str]:
    """Return the rows for which a call returns something else than the row says."""
    results = ((value, expected, call(value)) for value, expected in rows)
    return [
        f"{value!r:.{MAX_CHARS}} gave {result!r:.{MAX_CHARS}}, not {expected!r:.{MAX_CHARS}}"
        for value, expected, result in results
        if result != expected
    ]
