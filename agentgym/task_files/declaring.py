"""`TaskFiles`: declares the files that an environment can load tasks from, instead of generating them.

Declared as `Env.files`; read by `agentgym tasks sources`, recipes and the constructor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.choices import explicit_choices
from agentgym.engine.sharing import shared
from agentgym.errors import UsageError
from agentgym.task import TaskSource

STRICT = "strict"
STRICT_MEANS = "true refuses a broken entry, instead of leaving it out (in commands: --strict)"

_log = logging.getLogger(__name__)


def with_defaults(
    files: TaskFiles | None, defaults: Mapping[str, Any], user_arguments: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the arguments of an environment: the user's, completed by `defaults`.

    If tasks come from files, defaults that choose among generated tasks are dropped with a warning in the log.

    Args:
        files: The task files that the environment accepts, if any.
        defaults: Arguments from a recipe or from a model's training.
        user_arguments: Arguments from the user.
        source: Name of the origin of the defaults, for the warning.
    """
    dropped = files.contradicted(defaults, user_arguments) if files is not None else []
    if files is not None and dropped:
        _log.warning("tasks come from %s=...: %s of %s do not apply", files.argument, ", ".join(dropped), source)
    return {**{name: value for name, value in defaults.items() if name not in dropped}, **user_arguments}


@dataclass(frozen=True)
class Layout:
    """A file layout of published or stored tasks."""

    name: str
    """Name of the layout, such as `Spider`."""
    looks: str
    """Description of the files."""
    settings: str
    """The `--set` arguments, such as `folder=spider_data`."""


@dataclass(frozen=True)
class TaskFiles:
    """Files that an environment can load tasks from.

    Args:
        argument: The environment's argument that names the file or folder.
        loader: `module:Class` of the task source; called with the path and the options.
        options: Further arguments of the loader, each with a short description. `strict` is always one.
        layouts: The layouts that the loader can read.
        generated: The arguments that choose among generated tasks. With files, only those also in `options` apply.
    """

    argument: str
    loader: str
    options: Mapping[str, str]
    layouts: tuple[Layout, ...]
    generated: frozenset[str] = frozenset()

    @property
    def arguments(self) -> frozenset[str]:
        """All arguments of the environment that choose its tasks, besides `tasks`."""
        return self.generated | {*self.options, self.argument, STRICT}

    def divide(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split an environment's arguments into those that choose its tasks and all others."""
        choices = {name: value for name, value in arguments.items() if name in self.arguments}
        return choices, {name: value for name, value in arguments.items() if name not in choices}

    def contradicted(self, defaults: Iterable[str], user_arguments: Mapping[str, Any]) -> list[str]:
        """Return the defaults that choose among generated tasks although the user names files or a source."""
        if user_arguments.get(self.argument) is None and user_arguments.get("tasks") is None:
            return []
        return sorted((self.generated - set(self.options)).intersection(defaults).difference(user_arguments))

    def generator_choices(self, choices: Mapping[str, Any], **renamed: str) -> dict[str, Any]:
        """Return the choices that apply to generated tasks, under the names that their source uses."""
        names = sorted(name for name in self.generated if choices.get(name) is not None)
        return {renamed.get(name, name): choices[name] for name in names}

    def source(self, tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource | None:
        """Return the task source for an environment's arguments, or `None` to generate tasks.

        Args:
            tasks: The user's own source.
            choices: The arguments that choose tasks, by name; `None` counts as absent.

        Raises:
            UsageError: The arguments contradict each other, or the files are unusable.
        """
        explicit = explicit_choices(tasks, {name: value for name, value in choices.items() if name != STRICT})
        if tasks is not None:
            return tasks
        if self.argument not in explicit:
            if alone := sorted(set(explicit) & set(self.options) - self.generated):
                raise UsageError(f"{alone[0]}=... is for tasks from files; pass {self.argument}=... too")
            return None
        if others := sorted(set(explicit) - set(self.options) - {self.argument}):
            raise UsageError(
                f"tasks from {self.argument}=... have no {', '.join(others)} to choose; "
                f"there are: {', '.join([*self.options, STRICT])}"
            )
        path = explicit[self.argument]
        if not isinstance(path, str | Path):
            raise UsageError(f"{self.argument} must be the path of a file or folder, not {path!r}")
        options = {name: value for name, value in explicit.items() if name != self.argument}
        if choices.get(STRICT):
            options[STRICT] = True
        return shared(self.loader, Path(path).expanduser(), options)
