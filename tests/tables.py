"""Tables of cases in one test, of which every failing row is reported, not the first alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agentgym.errors import UsageError

MAX_CHARS = 300


def refusal(call: Callable[[], object], error: type[BaseException] = UsageError) -> str:
    """Return the text of the error that a call raises, or that it raised none."""
    try:
        result = call()
    except error as refused:
        return str(refused)
    return f"(nothing was raised, and {result!r:.{MAX_CHARS}} returned)"


def unrefused(
    rows: Iterable[tuple[Any, str]], call: Callable[[Any], object], error: type[BaseException] = UsageError
) -> list[str]:
    """Return the rows for which a call does not raise an error with the row's words in its text."""
    texts = ((value, words, refusal(lambda value=value: call(value), error)) for value, words in rows)
    return [
        f"{value!r:.{MAX_CHARS}}: {words!r} is not in {text!r}" for value, words, text in texts if words not in text
    ]


def differing(rows: Iterable[tuple[Any, Any]], call: Callable[[Any], object]) -> list[str]:
    """Return the rows for which a call returns something else than the row says."""
    results = ((value, expected, call(value)) for value, expected in rows)
    return [
        f"{value!r:.{MAX_CHARS}} gave {result!r:.{MAX_CHARS}}, not {expected!r:.{MAX_CHARS}}"
        for value, expected, result in results
        if result != expected
    ]
