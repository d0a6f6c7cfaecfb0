"""The console that commands print to."""

from __future__ import annotations

import os

from rich.console import Console

WIDE = 160
"""Width of output to a file or a pipe, where there is no terminal to fit, so that table rows are not wrapped."""


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or `WIDE` if there is none. `$COLUMNS` overrides both."""
    made = Console(stderr=stderr)
    if made.is_terminal or "COLUMNS" in os.environ:
        return made
    return Console(stderr=stderr, width=WIDE)
