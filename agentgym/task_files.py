"""`TaskFiles`: how an environment is given files to take its tasks from, instead of making them up.

An environment declares it as `files`; `agentgym tasks sources`, recipes and its own constructor read it there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.choices import given_apart_from
from agentgym.errors import UsageError
from agentgym.sharing import shared
from agentgym.task import TaskSource

STRICT = "strict"
STRICT_MEANS = "true refuses a broken entry, instead of leaving it out (in commands: --strict)"

_log = logging.getLogger(__name__)


def with_defaults(
    files: TaskFiles | None, defaults: Mapping[str, Any], given: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the arguments of an environment: `given`, and what else `defaults` say.

    Where tasks come from files, defaults that choose among generated tasks say nothing, and a line in the log says so.

    Args:
        files: The files that the environment takes tasks from, if it takes any.
        defaults: Arguments from a recipe, or those that a model was trained with.
        given: Arguments that a person gave.
        source: Names where the defaults come from, for that line.
    """
    dropped = files.contradicted(defaults, given) if files is not None else []
    if files is not None and dropped:
        _log.warning("tasks come from %s=...: %s of %s do not apply", files.argument, ", ".join(dropped), source)
    return {**{name: value for name, value in defaults.items() if name not in dropped}, **given}


@dataclass(frozen=True)
class Layout:
    """A form in which tasks are published or kept."""

    name: str
    """What it is called, such as `Spider`."""
    looks: str
    """The files, in words."""
    settings: str
    """What to `--set`, such as `folder=spider_data`."""


@dataclass(frozen=True)
class TaskFiles:
    """Files that an environment takes tasks from.

    Args:
        argument: The environment's argument that names the file or folder.
        loader: `module:Class` of the task source; called with the path and the options.
        options: The arguments that go with it, each with a few words on what it does. `strict` always does.
        layouts: What the loader can read.
        generated: The arguments that choose among generated tasks; only those that are options too go with files.
    """

    argument: str
    loader: str
    options: Mapping[str, str]
    layouts: tuple[Layout, ...]
    generated: frozenset[str] = frozenset()

    def contradicted(self, defaults: Iterable[str], given: Mapping[str, Any]) -> list[str]:
        """Return which defaults choose among generated tasks, although `given` names files or a source."""
        if given.get(self.argument) is None and given.get("tasks") is None:
            return []
        return sorted((self.generated - set(self.options)).intersection(defaults).difference(given))

    def generator_choices(self, choices: Mapping[str, Any], **renamed: str) -> dict[str, Any]:
        """Return those of the choices that are about generated tasks, under the names that their source takes."""
        names = sorted(name for name in self.generated if choices[name] is not None)
        return {renamed.get(name, name): choices[name] for name in names}

    def source(self, tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource | None:
        """Return the task source that the arguments of an environment name, or `None` if tasks are to be generated.

        Args:
            tasks: A source of the user's own.
            choices: All arguments that choose tasks, by name; those that are `None` were not given.

        Raises:
            UsageError: The arguments contradict each other, or the files cannot be used.
        """
        given = given_apart_from(tasks, {name: value for name, value in choices.items() if name != STRICT})
        if tasks is not None:
            return tasks
        if self.argument not in given:
            if alone := sorted(set(given) & set(self.options) - self.generated):
                raise UsageError(f"{alone[0]}=... is for tasks from files; pass {self.argument}=... too")
            return None
        if others := sorted(set(given) - set(self.options) - {self.argument}):
            raise UsageError(
                f"tasks from {self.argument}=... have no {', '.join(others)} to choose; "
                f"there are: {', '.join([*self.options, STRICT])}"
            )
        path = given[self.argument]
        if not isinstance(path, str | Path):
            raise UsageError(f"{self.argument} must be the path of a file or folder, not {path!r}")
        options = {name: value for name, value in given.items() if name != self.argument}
        if choices.get(STRICT):
            options[STRICT] = True
        return shared(self.loader, Path(path).expanduser(), options)
