"""`agentgym eval --rescore`: score the trajectories of a file again, and print the changes."""

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

from agentgym.base.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.base.output_files import held
from agentgym.cli.replay import Replay
from agentgym.core.display import plain
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.core.making import close
from agentgym.core.task import TaskList, read_manifest
from agentgym.core.trajectory import Trajectory
from agentgym.eval.results.annotations import Annotation, Annotations
from agentgym.eval.results.entry import Entry, entry_of
from agentgym.eval.results.index import TrajectoryIndex
from agentgym.eval.results.rescore import Rescored, rescore
from agentgym.eval.summary import Summary, summarize_entries

MAX_SHOWN = 10
_TRIES = 2
"""Attempts to score a trajectory if infrastructure fails."""
_AHEAD = 4
"""Trajectories in memory per worker."""
_BATCH = 100
"""Number of grades to write at a time."""


@dataclass(frozen=True, slots=True)
class RescoredEntry:
    """A trajectory before and after scoring it again."""

    before: Entry
    now: Entry
    changed: bool
    """Whether any reward or the ending differs."""
    diverged: int | None
    """The first turn whose observation differs from the recorded one (`Rescored.diverged`)."""
    decisions: tuple[str | None, str | None] = (None, None)
    """The rules that decided before and now, from `details['decision']`; `None` if the environment names none."""

    @property
    def flipped(self) -> bool:
        """Whether success changed."""
        return self.before.success != self.now.success


@dataclass
class RescoreReport:
    """The results of scoring a file again."""

    scored: list[RescoredEntry] = field(default_factory=list)
    skipped: int = 0
    """Failed trajectories, which say nothing about the model."""
    refused: dict[str, str] = field(default_factory=dict)
    """Maps the id of a trajectory that could not be scored to the reason."""

    @property
    def changed(self) -> list[RescoredEntry]:
        """Trajectories whose reward or ending changed."""
        return [scored for scored in self.scored if scored.changed]

    def summary(self) -> Summary:
        """Return the results with the new scores."""
        return summarize_entries(scored.now for scored in self.scored)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        turned = {True: "won", False: "lost"}
        return {
            "summary": self.summary().to_dict(),
            "scored": len(self.scored),
            "changed": [scored.now.id for scored in self.changed],
            "flipped": {scored.now.id: turned[scored.now.success] for scored in self.scored if scored.flipped},
            "decisions": {scored.now.id: scored.decisions for scored in self.scored if scored.flipped},
            "diverged": {scored.now.id: scored.diverged for scored in self.scored if scored.diverged is not None},
            "skipped": self.skipped,
            "refused": self.refused,
        }


def rescore_file(request: Replay, *, workers: int = 8) -> RescoreReport:
    """Score all trajectories of a file again and append the grades to its annotations.

    Args:
        wanted: The file, and what may be taken from it.
        workers: Number of trajectories to score concurrently, each in its own environment.

    Raises:
        UsageError: The file contains no trajectory, sets an argument that a file may not set, or is being scored by
            another process.
    """
    index = TrajectoryIndex.open(request.file)
    latest = [index.entries[position] for position in index.latest()]
    if not latest:
        raise UsageError(f"{str(request.file)!r} contains no trajectory")
    tasks = None if request.manifest is None else read_manifest(request.manifest)
    report = RescoreReport(skipped=sum(entry.failed for entry in latest))
    playable = [entry for entry in latest if not entry.failed]
    notes = Annotations(request.file)
    with (
        held(notes.file),
        _grades(notes) as add_grade,
        _Envs(request) as envs,
        closing(_all_scored(index.read_all(playable), envs, tasks, workers)) as results,
    ):
        for before, (trajectory, rescored) in zip(playable, results, strict=True):
            if isinstance(rescored, str):
                report.refused[trajectory.id] = rescored
            else:
                add_grade(rescored.annotation())
                now = entry_of(rescored.trajectory)
                decisions = (_decision(trajectory), _decision(rescored.trajectory))
                report.scored.append(RescoredEntry(before, now, rescored.changed, rescored.diverged, decisions))
    return report


def _all_scored(
    trajectories: Iterable[Trajectory], envs: _Envs, tasks: TaskList | None, workers: int
) -> Generator[tuple[Trajectory, Rescored | str]]:
    """Yield each trajectory with its new score, in order, with only a few in memory."""
    running: deque[Future[tuple[Trajectory, Rescored | str]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="rescore") as pool:
        for trajectory in trajectories:
            running.append(pool.submit(_score, trajectory, envs, tasks))
            if len(running) >= workers * _AHEAD:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


@contextmanager
def _grades(notes: Annotations) -> Iterator[Callable[[Annotation], None]]:
    """Provide a function that adds an annotation. Annotations are written in batches, and also after an error."""
    waiting: list[Annotation] = []

    def write() -> None:
        batch = waiting.copy()
        waiting.clear()
        notes.add(batch)

    def add(annotation: Annotation) -> None:
        waiting.append(annotation)
        if len(waiting) >= _BATCH:
            write()

    try:
        yield add
    finally:
        if waiting:
            write()


def print_rescored(report: RescoreReport, console: Console) -> None:
    """Print the changes; the summary is printed like that of any evaluation."""
    lost = [scored for scored in report.scored if scored.flipped and scored.before.success]
    won = [scored for scored in report.scored if scored.flipped and scored.now.success]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("scored again", str(len(report.scored)))
    table.add_row("changed", str(len(report.changed)))
    table.add_row("now solved", _ids_text(won))
    table.add_row("no longer solved", _ids_text(lost))
    if report.skipped:
        table.add_row("failed before", f"{report.skipped}; nothing to score")
    console.print(table)
    if diverged := [scored for scored in report.scored if scored.diverged is not None]:
        console.print(
            f"[bold yellow]{len(diverged)} show other observations than recorded[/] ({_ids_text(diverged)}): the "
            "environment itself has changed, so their scores mean little. agentgym replay shows the differences."
        )
    for name, why in list(report.refused.items())[:MAX_SHOWN]:
        console.print(Text(f"  {plain(name, 200)}: {plain(why, 500)}", style="red"))
    if (more := len(report.refused) - MAX_SHOWN) > 0:
        console.print(Text(f"  … and {more} more that could not be scored", style="dim"))


class _Envs:
    """A pool of environments by their arguments, each used by one thread at a time."""

    def __init__(self, request: Replay):
        self._wanted, self._lock = request, Lock()
        self._idle: dict[str, list[Env]] = {}

    def __enter__(self) -> _Envs:
        return self

    def __exit__(self, *_: object) -> None:
        for env in (env for envs in self._idle.values() for env in envs):
            close(env)

    def take(self, trajectory: Trajectory) -> Env:
        """Return an environment for a trajectory."""
        with self._lock, suppress(KeyError, IndexError):
            return self._idle[_env_key(trajectory)].pop()
        return self._wanted.make_env(trajectory)

    def give_back(self, trajectory: Trajectory, env: Env) -> None:
        """Return an environment to the pool."""
        with self._lock:
            self._idle.setdefault(_env_key(trajectory), []).append(env)


def _env_key(trajectory: Trajectory) -> str:
    return json.dumps([trajectory.env_id, trajectory.env_kwargs], sort_keys=True)


def _score(trajectory: Trajectory, envs: _Envs, tasks: TaskList | None) -> tuple[Trajectory, Rescored | str]:
    """Return a trajectory with its new score, or with the reason why it cannot be scored."""
    for retries_left in reversed(range(_TRIES)):
        env: Env | None = None
        try:
            env = envs.take(trajectory)
            rescored = rescore(trajectory, env, None if tasks is None else tasks.find(trajectory.task_id))
        except InfrastructureError as error:
            if env is not None:
                close(env)
            if not retries_left:
                return trajectory, describe(error)
        except AgentGymError as error:
            if env is None:  # a forbidden argument; other trajectories of the file have it too
                raise
            envs.give_back(trajectory, env)
            return trajectory, str(error)
        else:
            envs.give_back(trajectory, env)
            return trajectory, rescored
    raise AssertionError("the last attempt returns")


def _ids_text(scored: list[RescoredEntry]) -> str:
    names: Iterator[str] = (f"{plain(s.now.id, 100)}{_decisions_text(s)}" for s in scored[:MAX_SHOWN])
    more = f", … {len(scored) - MAX_SHOWN} more" if len(scored) > MAX_SHOWN else ""
    return f"{len(scored)}" + (f": {', '.join(names)}{more}" if scored else "")


def _decisions_text(scored: RescoredEntry) -> str:
    if not scored.flipped or scored.decisions == (None, None):
        return ""
    before, now = (plain(rule or "not recorded", 60) for rule in scored.decisions)
    return f" ({before} → {now})"


def _decision(trajectory: Trajectory) -> str | None:
    rule = trajectory.details.get("decision")
    return rule if isinstance(rule, str) else None
