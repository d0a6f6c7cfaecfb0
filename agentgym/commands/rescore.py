"""`agentgym eval --rescore`: score the trajectories of a file again, and print what has changed."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.commands.replay import Replay
from agentgym.env import Env
from agentgym.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.foreign.closing import close
from agentgym.foreign.errors import describe
from agentgym.outputs import held
from agentgym.results.annotations import Annotation, Annotations
from agentgym.results.entry import Entry, entry_of
from agentgym.results.index import TrajectoryIndex
from agentgym.results.rescore import Rescored, rescore
from agentgym.summary import Summary, summarize_entries
from agentgym.task import TaskList, read_manifest
from agentgym.terminal.printing import plain
from agentgym.trajectory import Trajectory

MAX_SHOWN = 10
_TRIES = 2
"""Times that a trajectory is scored before what breaks around the grader counts."""
_AHEAD = 4
"""Trajectories for each worker that are read before the first of them is scored."""
_BATCH = 100
"""Grades that are written at a time."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What came of scoring a trajectory again, in short."""

    before: Entry
    now: Entry
    changed: bool
    """Whether any reward or the ending differs."""
    diverged: int | None
    """The first turn whose observation is no longer the recorded one (`Rescored.diverged`)."""

    @property
    def flipped(self) -> bool:
        """Whether it was solved before and is not now, or the other way round."""
        return self.before.success != self.now.success


@dataclass
class Report:
    """What came of scoring a file again."""

    scored: list[Scored] = field(default_factory=list)
    skipped: int = 0
    """Failed trajectories, which say nothing about the model."""
    refused: dict[str, str] = field(default_factory=dict)
    """Maps the id of a trajectory that could not be scored to the reason."""

    @property
    def changed(self) -> list[Scored]:
        """Those with another reward or ending than before."""
        return [one for one in self.scored if one.changed]

    def summary(self) -> Summary:
        """Return the results with the new scores."""
        return summarize_entries(one.now for one in self.scored)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        turned = {True: "won", False: "lost"}
        return {
            "summary": self.summary().to_dict(),
            "scored": len(self.scored),
            "changed": [one.now.id for one in self.changed],
            "flipped": {one.now.id: turned[one.now.success] for one in self.scored if one.flipped},
            "diverged": {one.now.id: one.diverged for one in self.scored if one.diverged is not None},
            "skipped": self.skipped,
            "refused": self.refused,
        }


def rescore_file(wanted: Replay, *, workers: int = 8) -> Report:
    """Score all trajectories of a file again and append the grades to its annotations.

    Args:
        wanted: The file, and what may be taken from it.
        workers: Trajectories that are scored at the same time, each in an environment of its own.

    Raises:
        UsageError: The file holds no trajectory, chooses what a file must not choose, or is being scored by another
            process.
    """
    index = TrajectoryIndex.open(wanted.file)
    latest = [index.entries[position] for position in index.latest()]
    if not latest:
        raise UsageError(f"{str(wanted.file)!r} contains no trajectory")
    tasks = None if wanted.manifest is None else read_manifest(wanted.manifest)
    report = Report(skipped=sum(entry.failed for entry in latest))
    left = [entry for entry in latest if not entry.failed]
    notes = Annotations(wanted.file)
    with (
        held(notes.file),
        _grades(notes) as keep,
        _Envs(wanted) as envs,
        closing(_all_scored(index.read_all(left), envs, tasks, workers)) as results,
    ):
        for before, (trajectory, found) in zip(left, results, strict=True):
            if isinstance(found, str):
                report.refused[trajectory.id] = found
            else:
                keep(found.annotation())
                now = entry_of(found.trajectory)
                report.scored.append(Scored(before, now, found.changed, found.diverged))
    return report


def _all_scored(
    trajectories: Iterable[Trajectory], envs: _Envs, tasks: TaskList | None, workers: int
) -> Generator[tuple[Trajectory, Rescored | str]]:
    """Yield each trajectory with its new score, in order. Only a few are in memory at a time."""
    running: deque[Future[tuple[Trajectory, Rescored | str]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="rescore") as pool:
        for trajectory in trajectories:
            running.append(pool.submit(_scored, trajectory, envs, tasks))
            if len(running) >= workers * _AHEAD:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


@contextmanager
def _grades(notes: Annotations) -> Iterator[Callable[[Annotation], None]]:
    """Provide what keeps an annotation. They are written in batches, and however this ends."""
    waiting: list[Annotation] = []

    def write() -> None:
        batch = waiting.copy()
        waiting.clear()
        notes.add(batch)

    def keep(annotation: Annotation) -> None:
        waiting.append(annotation)
        if len(waiting) >= _BATCH:
            write()

    try:
        yield keep
    finally:
        if waiting:
            write()


def print_rescored(report: Report, console: Console) -> None:
    """Print what has changed; the new summary is printed as that of any evaluation."""
    lost = [one for one in report.scored if one.flipped and one.before.success]
    won = [one for one in report.scored if one.flipped and one.now.success]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("scored again", str(len(report.scored)))
    table.add_row("changed", str(len(report.changed)))
    table.add_row("now solved", _listed(won))
    table.add_row("no longer solved", _listed(lost))
    if report.skipped:
        table.add_row("failed before", f"{report.skipped}; nothing to score")
    console.print(table)
    if diverged := [one for one in report.scored if one.diverged is not None]:
        console.print(
            f"[bold yellow]{len(diverged)} no longer see what was recorded[/] ({_listed(diverged)}): the environment "
            "itself has changed, so their scores say little. agentgym replay shows where."
        )
    for name, why in list(report.refused.items())[:MAX_SHOWN]:
        console.print(Text(f"  {plain(name, 200)}: {plain(why, 500)}", style="red"))
    if (more := len(report.refused) - MAX_SHOWN) > 0:
        console.print(Text(f"  … and {more} more that could not be scored", style="dim"))


class _Envs:
    """Environments that are lent to one thread at a time, by what they were made of."""

    def __init__(self, wanted: Replay):
        self._wanted, self._lock = wanted, Lock()
        self._idle: dict[str, list[Env]] = {}

    def __enter__(self) -> _Envs:
        return self

    def __exit__(self, *_: object) -> None:
        for env in (env for envs in self._idle.values() for env in envs):
            close(env)

    def take(self, trajectory: Trajectory) -> Env:
        """Return an environment for a trajectory."""
        with self._lock, suppress(KeyError, IndexError):
            return self._idle[_made_of(trajectory)].pop()
        return self._wanted.make_env(trajectory)

    def give_back(self, trajectory: Trajectory, env: Env) -> None:
        """Keep an environment for the next trajectory."""
        with self._lock:
            self._idle.setdefault(_made_of(trajectory), []).append(env)


def _made_of(trajectory: Trajectory) -> str:
    return json.dumps([trajectory.env_id, trajectory.env_kwargs], sort_keys=True)


def _scored(trajectory: Trajectory, envs: _Envs, tasks: TaskList | None) -> tuple[Trajectory, Rescored | str]:
    """Return a trajectory with its new score, or with the reason why there is none."""
    for left in reversed(range(_TRIES)):
        env: Env | None = None
        try:
            env = envs.take(trajectory)
            found = rescore(trajectory, env, None if tasks is None else tasks.find(trajectory.task_id))
        except InfrastructureError as error:
            if env is not None:
                close(env)
            if not left:
                return trajectory, describe(error)
        except AgentGymError as error:
            if env is None:  # the file chooses what it must not, and so will its other trajectories
                raise
            envs.give_back(trajectory, env)
            return trajectory, str(error)
        else:
            envs.give_back(trajectory, env)
            return trajectory, found
    raise AssertionError("the last try returns")


def _listed(found: list[Scored]) -> str:
    names: Iterator[str] = (plain(one.now.id, 100) for one in found[:MAX_SHOWN])
    more = f", … {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
    return f"{len(found)}" + (f": {', '.join(names)}{more}" if found else "")
