"""The console that commands print to."""

from __future__ import annotations

import os

from rich.console import Console

WIDE = 160
"""Columns of what goes to a file or a pipe, where there is no terminal to fit: tables stay on one line each."""


def console(*, stderr: bool = False) -> Console:
    """Return a console that fits the terminal, or is wide where there is none; `$COLUMNS` decides over both."""
    made = Console(stderr=stderr)
    if made.is_terminal or "COLUMNS" in os.environ:
        return made
    return Console(stderr=stderr, width=WIDE)
