"""The console that commands print to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from rich.console import Console
from rich.table import Table

WIDE = 160
"""Width of output to a file or a pipe, so that table rows are not wrapped."""


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or `WIDE` for other output. `$COLUMNS` overrides both."""
    default = Console(stderr=stderr)
    if default.is_terminal or "COLUMNS" in os.environ:
        return default
    return Console(stderr=stderr, width=WIDE)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect stdout to stderr, for child processes too, so that stdout receives only a JSON result."""
    sys.stdout.flush()
    stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def new_table(*columns: str) -> Table:
    """Return an empty table in the style of all commands."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for index, name in enumerate(columns):
        table.add_column(name, no_wrap=index == 0, style="bold" if index == 0 else "", overflow="fold")
    return table
