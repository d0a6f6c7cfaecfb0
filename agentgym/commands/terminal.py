"""The console that commands print to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from rich.console import Console

WIDE = 160
"""Width of output to a file or a pipe, where there is no terminal to fit, so that table rows are not wrapped."""


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or `WIDE` if there is none. `$COLUMNS` overrides both."""
    made = Console(stderr=stderr)
    if made.is_terminal or "COLUMNS" in os.environ:
        return made
    return Console(stderr=stderr, width=WIDE)


@contextmanager
def stdout_kept() -> Iterator[None]:
    """Send to stderr what environments, policies and their child processes print: stdout is for a result in JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
