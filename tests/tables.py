"""One test over a table of cases: all rows run, and those that fail are named."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def over(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with each row of a table, as `pytest.mark.parametrize` does, but within a single test.

    Each row has a `tmp_path` of its own; the other fixtures are shared.
    """
    rows = list(rows)
    assert rows, "a table without rows"
    columns = (names,) if isinstance(names, str) else names

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def over_rows(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for number, row in enumerate(rows):
                values = dict(zip(columns, (row,) if isinstance(names, str) else row, strict=True))
                folder = {"tmp_path": fixtures["tmp_path"] / str(number)} if "tmp_path" in fixtures else {}
                for path in folder.values():
                    path.mkdir()
                try:
                    test(**fixtures | folder | values)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the row {values!r}"[:500])
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} rows fail", failures)

        parameters = [one for name, one in signature.parameters.items() if name not in columns]
        over_rows.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return over_rows

    return decorate
