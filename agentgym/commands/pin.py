"""`agentgym tasks pin|split`: write tasks to files, as pins of a suite or as manifests of two splits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.commands.task_sets import AsSuite, Data, Name, Near, factory_of, names_suite, paths_in
from agentgym.counts import count_of
from agentgym.errors import UsageError
from agentgym.terminal.options import Settings

if TYPE_CHECKING:
    from agentgym.suites.pinning import Pinned
    from agentgym.task import Task


def pin(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(help="The YAML file to write; default: that of the suite.", dir_okay=False)
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="The split to take tasks from; default: test or the nearest split.")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help="Number of different tasks; default: 100.")
    ] = None,
    entry: Annotated[
        str | None, typer.Option(help="The entry of the suite; default for a new one: the name of its environment.")
    ] = None,
    settings: Settings = None,
    data: Data = None,
    as_suite: AsSuite = False,
) -> None:
    """Pin the current tasks of a suite, or tasks of an environment as a new entry of a suite.

    With a suite and --entry, that entry gets the tasks of --split and --number. With an environment, --out names the
    suite, which is created if it does not exist; --data NAME=PATH takes the tasks from your files, and the suite will
    require them under that name. A suite whose content changes gets a new version.
    """
    if names_suite(name, as_suite):
        if settings or (entry is None and (split or number)):
            raise UsageError("to change the tasks of an entry, use --entry NAME; --set is for environments")
        done = _pin_suite(name, out, entry, split, number or _NUMBER, data)
    elif out is None:
        raise UsageError(f"name the suite to add the tasks of {name!r} to: --out SUITE.yaml")
    else:
        done = _pin_environment(name, out, split, number or _NUMBER, entry, settings, data)
    _print_changes(done)


_NUMBER = 100
"""Default number of tasks to pin."""


def split_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Manifests (agentgym tasks ENV --out FILE)."),
    ],
    out: Annotated[Path, typer.Option(help="The folder for train.jsonl and test.jsonl.", file_okay=False)],
    test: Annotated[float, typer.Option(help="Share of the tasks for test, above 0 and below 1.")] = 0.2,
    near: Near = 0.9,
) -> None:
    """Divide tasks into train and test, so that equal or nearly equal problems are in the same split.

    The split of a task depends on its content, not on its order or id.
    """
    from agentgym.outputs import check_folder
    from agentgym.overlap.splitting import split_tasks
    from agentgym.task import manifest_tasks, write_manifest

    divided = split_tasks(_unique_tasks(task for file in files for task in manifest_tasks(file)), test, near)
    check_folder(out)
    for split, tasks in divided.items():
        path = out / f"{split}.jsonl"
        write_manifest(path, tasks)
        typer.echo(f"Wrote {count_of(len(tasks), 'task')} to {path}")


def _unique_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks of several files. Raises `UsageError` if two different tasks have the same id."""
    tasks_by_id: dict[str, Task] = {}
    for task in tasks:
        if tasks_by_id.setdefault(task.id, task).hash != task.hash:
            raise UsageError(f"the files contain two tasks {task.id!r} that differ; give them different ids")
    return list(tasks_by_id.values())


def _pin_suite(
    name: str, out: Path | None, entry: str | None, split: str | None, number: int, data: list[str] | None
) -> Pinned:
    from agentgym.suites.loading import suite_path
    from agentgym.suites.pinning import copy_suite, pin_suite, pin_tasks

    source = suite_path(name)
    if out is None and source != Path(name).expanduser():
        raise UsageError(f"{name!r} is bundled; name the file of your own version: --out {name}.yaml")
    if out is not None and not (out.exists() and out.samefile(source)):
        if out.exists():
            raise UsageError(
                f"{str(out)!r} exists already; name a new file, or pin that suite: agentgym tasks pin {out}"
            )
        _check_suite_path(out)
        copy_suite(source, out)
    path = out or source
    if entry is not None:
        return pin_tasks(path, entry, split, number, paths_in(data))
    return pin_suite(path, paths_in(data))


def _pin_environment(
    name: str,
    out: Path,
    split: str | None,
    number: int,
    entry: str | None,
    settings: list[str] | None,
    data: list[str] | None,
) -> Pinned:
    from agentgym.settings import parse_settings
    from agentgym.suites.pinning import add_entry

    _check_suite_path(out)
    arguments, paths = parse_settings(settings or []), paths_in(data)
    described: dict[str, Any] = {"env": name, "name": entry, "arguments": arguments}
    described["data"] = _data_argument(name, paths)
    factory_of(name, {**arguments, **{argument: paths[data_name] for argument, data_name in described["data"].items()}})
    return add_entry(out, {key: value for key, value in described.items() if value}, split, number, paths)


def _check_suite_path(out: Path) -> None:
    """Raise `UsageError` unless a suite can be written to `out`."""
    from agentgym.suites.loading import ENDINGS

    if out.suffix not in ENDINGS:
        raise UsageError(f"a suite is a YAML file; its name must end with .yaml, unlike {str(out)!r}")
    if not out.parent.is_dir():
        raise UsageError(f"cannot write to {str(out)!r}: the folder {str(out.parent)!r} does not exist")


def _data_argument(env: str, paths: dict[str, str]) -> dict[str, str]:
    """Return the environment's argument for task files, mapped to the name in `paths`; empty without paths."""
    from agentgym.registry import class_of

    if not paths:
        return {}
    files = class_of(env).files
    if files is None:
        raise UsageError(f"{env!r} takes no files of tasks, so --data does not apply")
    if len(paths) > 1:
        raise UsageError(f"an entry takes its tasks from one file or folder, not from {', '.join(paths)}")
    return {files.argument: next(iter(paths))}


def _print_changes(done: Pinned) -> None:
    """Print the changes to the suite."""
    for task_id in done.gone:
        typer.echo(f"removed, since it no longer exists: {task_id}")
    for task_id in done.changed:
        typer.echo(f"changed: {task_id}")
    for name in done.skipped:
        typer.echo(f"not changed, since its data is missing: the entry {name}")
    for name in done.unpinned:
        typer.echo(f"no tasks yet: the entry {name} (agentgym tasks pin {done.file} --entry {name})")
    version = f"version {done.version}"
    if done.version != done.was:
        version += f" (it was {done.was})"
    elif done.is_same:
        version += ", unchanged"
    typer.echo(f"{done.file}: {count_of(done.tasks, 'task')} pinned, {version}")
