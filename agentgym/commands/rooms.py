"""Commands of other rooms, loaded when they are called."""

from __future__ import annotations

from typing import Any

import typer

from agentgym.loading import load_named


def command_of(name: str, path: str) -> Any:
    """Return the Click command that `"module:name"` names.

    Args:
        name: Name of the command.
        path: Path of a function or a Typer app.
    """
    found = load_named(path, "a command")
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command(name)(found)
        found = app
    command = typer.main.get_command(found)
    command.name = name
    return command
