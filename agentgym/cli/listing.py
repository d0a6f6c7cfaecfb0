"""Tables of tasks, and cards of environments, for the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from agentgym.base.choices import count_of
from agentgym.base.console import console as terminal
from agentgym.base.console import new_table
from agentgym.base.errors import UsageError
from agentgym.base.output_files import check_folder, refuse_to_replace
from agentgym.check.cards import CardSubject, card, is_card, overview, read_speeds, subjects
from agentgym.cli.environments import by_class
from agentgym.core.display import plain
from agentgym.core.registry import class_of
from agentgym.core.task import Task
from agentgym.core.task_files import STRICT, STRICT_MEANS


def tasks_table(tasks: Iterable[Task]) -> Table:
    """Return a table of tasks, without the gold."""
    table = new_table("task", "difficulty", "tags", "prompt")
    for task in tasks:
        table.add_row(
            Text(plain(task.id, 200)),
            str(task.difficulty),
            Text(plain(" ".join(task.tags))),
            Text(plain(task.prompt, 500)),
        )
    return table


def print_sources(env: str | None) -> None:
    """Print which task files the environments accept: their arguments, options and layouts.

    Args:
        env: Print only the files of this environment. Raises `UsageError` if it accepts none.
    """
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False)
    kinds = {name: class_of(name) for name in ([env] if env is not None else _ids())}
    taking = {name: kind.files for name, kind in kinds.items() if kind.files is not None}
    if not taking:
        raise UsageError(f"{env!r} takes no files of tasks; these environments do: {', '.join(taking_files())}")
    for name, files in taking.items():
        console.print(Text.assemble((name, "bold"), f"  --set {files.argument}=PATH"))
        for layout in files.layouts:
            console.print(Text(f"  {layout.name:16} {layout.looks}\n  {'':16} --set {layout.settings}"))
        for option, what in {**files.options, STRICT: STRICT_MEANS}.items():
            console.print(Text(f"  {f'--set {option}=…':24} {what}", style="dim"))
        console.print()


def _ids() -> list[str]:
    """Return the ids of the environments that can be imported."""
    ids: list[str] = []
    for env_id, _ in by_class():
        try:
            class_of(env_id)
        except Exception:  # `agentgym list` shows the error of a plugin
            continue
        ids.append(env_id)
    return ids


def taking_files() -> list[str]:
    """Return the ids of the environments that accept task files."""
    return [env_id for env_id in _ids() if class_of(env_id).files is not None]


OVERVIEW = "README.md"


def print_cards(names: Sequence[str], played: int, speeds: Path | None) -> None:
    """Print the cards of these environments, or of all."""
    for _, text in _cards(subjects(names), played, speeds):
        typer.echo(text)


def write_cards(names: Sequence[str], out: Path, played: int, speeds: Path | None) -> None:
    """Write the cards to a folder, and the overview, unless only some environments are named."""
    check_folder(out)
    selected = subjects(names)
    for name in [*(f"{subject.name}.md" for subject in selected), *(() if names else (OVERVIEW,))]:
        refuse_to_replace(out / name, "a card of agentgym", is_card)
    for subject, text in _cards(selected, played, speeds):
        (out / f"{subject.name}.md").write_text(text, encoding="utf-8")
    if not names:
        (out / OVERVIEW).write_text(overview(selected, read_speeds(speeds) if speeds else {}), encoding="utf-8")
    typer.echo(f"Wrote {count_of(len(selected), 'card')} to {out}")


def _cards(selected: Sequence[CardSubject], played: int, speeds: Path | None) -> Iterator[tuple[CardSubject, str]]:
    speed_by_name = read_speeds(speeds) if speeds else {}
    with terminal(stderr=True).status("Playing …") as status:
        for subject in selected:
            status.update(f"Playing {subject.name} …")
            yield subject, card(subject, played=played, speed=speed_by_name.get(subject.name))
