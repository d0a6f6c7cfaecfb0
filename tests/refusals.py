"""Tables of cases in one test, which reports every failing row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from agentgym.base.errors import UsageError


def refusal(call: Callable[..., Any], *arguments: Any, raises: type[Exception] = UsageError, **named: Any) -> str:
    """Return the text of the error that a call raises; empty if it raises none."""
    try:
        call(*arguments, **named)
    except raises as error:
        return str(error)
    return ""


def not_refused(
    call: Callable[[Any], Any], rows: Iterable[tuple[Any, str]], kind: type[Exception] = UsageError
) -> list[tuple[Any, str, str]]:
    """Return the rows (argument, words) whose call does not raise a one-line error that contains the words."""
    refusals = [(argument, words, refusal(call, argument, raises=kind)) for argument, words in rows]
    return [row for row in refusals if row[1] not in row[2] or "\n" in row[2]]


def differing(call: Callable[[Any], object], rows: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return the rows (argument, result) whose call returns something else."""
    results = ((argument, expected, call(argument)) for argument, expected in rows)
    return [
        f"{argument!r:.300} gave {result!r:.300}, not {expected!r:.300}"
        for argument, expected, result in results
        if result != expected
    ]


def sampled(few: int, many: int) -> pytest.MarkDecorator:
    """Run a test of generated data with the argument `count`: `few` in every run, `many` nightly."""
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.nightly)])
