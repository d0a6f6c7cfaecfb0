"""Commands of other folders (`agentgym.base.components`), loaded when they are called."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from agentgym.base.loading import load_named


class LazyCommand(TyperCommand):
    """A command that is imported when it is called.

    Args:
        name: Name of the command.
        path: Path of a function or a Typer app.
        help: Text for the list of commands.
        panel: Its heading in that list, if there are headings.
    """

    def __init__(self, name: str, path: str, help: str, panel: str | None = None):
        super().__init__(name, help=help, rich_help_panel=panel)
        self.path = path

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command and parse its arguments."""
        return load_command(self.name or "", self.path).make_context(info_name, args, parent=parent, **extra)


def load_command(name: str, path: str) -> Any:
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
