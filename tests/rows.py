"""One test case for all rows of a table: it runs every row and reports the failing ones."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def _own_folder(fixtures: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the fixtures with another `tmp_path`, if they have one."""
    if "tmp_path" not in fixtures:
        return fixtures
    folder = fixtures["tmp_path"] / f"row-{number}"
    folder.mkdir()
    return fixtures | {"tmp_path": folder}


def each_row(
    columns: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test once per row, as one case. Stacked decorators try all combinations.

    Args:
        columns: Names of parameters of the test, separated by commas; its other parameters are fixtures, shared by all
            rows, except that each row has its own `tmp_path`.
        rows: Tuples of values; for a single column, the values themselves.
    """
    names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else [*columns]
    table = [(row,) if isinstance(columns, str) and len(names) == 1 else row for row in rows]
    assert table, "a table without rows"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*fixtures: Any, **more: Any) -> None:
            failures: list[str] = []
            for number, row in enumerate(table):
                try:
                    test(*fixtures, **_own_folder(more, number), **dict(zip(names, row, strict=True)))
                except (Exception, pytest.fail.Exception):
                    failures.append(f"{', '.join(names)} = {row!r:.300}:\n{traceback.format_exc(limit=-3)}")
            assert not failures, f"{len(failures)} of {len(table)} rows failed\n" + "\n".join(failures)

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return decorate
