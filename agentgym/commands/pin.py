"""`agentgym tasks pin|split`: tasks written to files, as pins of a suite or as manifests of two splits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.commands.common_options import Settings
from agentgym.commands.task_sets import AsSuite, Data, Name, Near, factory_of, names_suite, paths_in
from agentgym.counts import count_of
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from agentgym.suites.pinning import Pinned
    from agentgym.task import Task


def pin(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(help="The suite's YAML file; by default the one that was named.", dir_okay=False)
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="The split to take tasks from; by default test or the nearest split.")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help="Number of different tasks; by default 100.")
    ] = None,
    entry: Annotated[
        str | None, typer.Option(help="The entry of the suite; a new one is named like its environment by default.")
    ] = None,
    settings: Settings = None,
    data: Data = None,
    as_suite: AsSuite = False,
) -> None:
    """Pin tasks: those of a suite as they are now, or those of an environment as a new entry of a suite.

    With a suite and --entry, that entry gets the tasks of --split and --number. With an environment, --out names the
    suite, which is begun if it does not exist; --data NAME=PATH takes the tasks from your files, and the suite will ask
    for them by that name. A suite whose content changed gets a new version.
    """
    if names_suite(name, as_suite):
        if settings or (entry is None and (split or number)):
            raise UsageError("an entry of a suite gets other tasks with --entry NAME; --set is for environments")
        done = _pin_suite(name, out, entry, split, number or _NUMBER, data)
    elif out is None:
        raise UsageError(f"name the suite in which the tasks of {name!r} are pinned: --out SUITE.yaml")
    else:
        done = _pin_environment(name, out, split, number or _NUMBER, entry, settings, data)
    _tell(done)


_NUMBER = 100
"""How many tasks are pinned by default."""


def split_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Manifests (agentgym tasks ENV --out FILE)."),
    ],
    out: Annotated[Path, typer.Option(help="The folder for train.jsonl and test.jsonl.", file_okay=False)],
    test: Annotated[float, typer.Option(help="Share of the tasks for test, above 0 and below 1.")] = 0.2,
    near: Near = 0.9,
) -> None:
    """Divide tasks into train and test, with no problem in both, nor one nearly the same.

    The content of tasks decides their split: neither their order nor their ids matter.
    """
    from agentgym.outputs import check_folder
    from agentgym.overlap.splitting import split_tasks
    from agentgym.task import manifest_tasks, write_manifest

    divided = split_tasks(_each_once(task for file in files for task in manifest_tasks(file)), test, near)
    check_folder(out)
    for split, tasks in divided.items():
        path = out / f"{split}.jsonl"
        write_manifest(path, tasks)
        typer.echo(f"Wrote {count_of(len(tasks), 'task')} to {path}")


def _each_once(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks of several files. Raises `UsageError` if one id stands for two problems."""
    found: dict[str, Task] = {}
    for task in tasks:
        if found.setdefault(task.id, task).hash != task.hash:
            raise UsageError(f"the files hold two tasks {task.id!r} that are not the same; give them ids of their own")
    return list(found.values())


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
            raise UsageError(f"{str(out)!r} exists; name a new file, or pin that suite: agentgym tasks pin {out}")
        _yaml(out)
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

    _yaml(out)
    arguments, paths = parse_settings(settings or []), paths_in(data)
    described: dict[str, Any] = {"env": name, "name": entry, "arguments": arguments}
    described["data"] = _data_argument(name, paths)
    factory_of(name, {**arguments, **{argument: paths[one] for argument, one in described["data"].items()}})
    return add_entry(out, {key: value for key, value in described.items() if value}, split, number, paths)


def _yaml(out: Path) -> None:
    """Raise `UsageError` unless a suite can be written to `out`."""
    from agentgym.suites.loading import ENDINGS

    if out.suffix not in ENDINGS:
        raise UsageError(f"a suite is a YAML file; name one that ends with .yaml, not {str(out)!r}")
    if not out.parent.is_dir():
        raise UsageError(f"cannot write to {str(out)!r}: there is no folder {str(out.parent)!r}")


def _data_argument(env: str, paths: dict[str, str]) -> dict[str, str]:
    """Return which argument of an environment takes the data that was given."""
    from agentgym.registry import class_of

    if not paths:
        return {}
    files = class_of(env).files
    if files is None:
        raise UsageError(f"{env!r} takes no files of tasks, so --data does not apply")
    if len(paths) > 1:
        raise UsageError(f"the tasks of an entry come from one file or folder, not from {', '.join(paths)}")
    return {files.argument: next(iter(paths))}


def _tell(done: Pinned) -> None:
    """Print what pinning did."""
    for task_id in done.gone:
        typer.echo(f"gone, and removed: {task_id}")
    for task_id in done.changed:
        typer.echo(f"changed: {task_id}")
    for name in done.skipped:
        typer.echo(f"kept as it was, since its data was not given: the entry {name}")
    for name in done.unpinned:
        typer.echo(f"without tasks yet: the entry {name} (agentgym tasks pin {done.file} --entry {name})")
    version = f"version {done.version}"
    if done.version != done.was:
        version += f" (it was {done.was})"
    elif done.is_same:
        version += ", unchanged"
    typer.echo(f"{done.file}: {count_of(done.tasks, 'task')} pinned, {version}")
