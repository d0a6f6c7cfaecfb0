"""Commands of other folders (`agentgym.base.components`), loaded when they are called."""

from __future__ import annotations

from typing import Any

import typer

from agentgym.base.loading import load_named


def command_of(name: str, path: str) -> Any:
    """Return the Click command that `"module:name"` names.

    Args:
        name: Name of the command.
        path: Path of a function or a Typer app.
    """
    target = load_named(path, "a command")
    if not isinstance(target, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command(name)(target)
        target = app
    command = typer.main.get_command(target)
    command.name = name
    return command
