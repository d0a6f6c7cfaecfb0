"""`agentgym eval --rescore`: score the trajectories of a file again, and print what has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.commands.replay import Replay
from agentgym.commands.show import plain
from agentgym.env import Env
from agentgym.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.foreign.closing import close
from agentgym.foreign.errors import describe
from agentgym.results.annotations import Annotations
from agentgym.results.index import TrajectoryIndex
from agentgym.results.rescore import Rescored, rescore
from agentgym.summary import Summary, summarize
from agentgym.task import TaskList, read_manifest
from agentgym.trajectory import Trajectory

MAX_SHOWN = 10
_TRIES = 2
"""Times that a trajectory is scored before what breaks around the grader counts."""


@dataclass
class Report:
    """What came of scoring a file again."""

    scored: list[Rescored] = field(default_factory=list)
    skipped: int = 0
    """Failed trajectories, which say nothing about the model."""
    refused: dict[str, str] = field(default_factory=dict)
    """Maps the id of a trajectory that could not be scored to the reason."""

    @property
    def changed(self) -> list[Rescored]:
        """Those with another reward or ending than before."""
        return [one for one in self.scored if one.changed]

    def summary(self) -> Summary:
        """Return the results with the new scores."""
        return summarize(one.trajectory for one in self.scored)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        turned = {True: "won", False: "lost"}
        flips = {one.trajectory.id: turned[one.trajectory.success] for one in self.scored if _flipped(one)}
        return {
            "summary": self.summary().to_dict(),
            "scored": len(self.scored),
            "changed": [one.trajectory.id for one in self.changed],
            "flipped": flips,
            "diverged": {one.trajectory.id: one.diverged for one in self.scored if one.diverged is not None},
            "skipped": self.skipped,
            "refused": self.refused,
        }


def rescore_file(wanted: Replay, *, workers: int = 8) -> Report:
    """Score all trajectories of a file again and append the grades to its annotations.

    Args:
        wanted: The file, and what may be taken from it.
        workers: Trajectories that are scored at the same time, each in an environment of its own.

    Raises:
        UsageError: The file holds no trajectory, or chooses what a file must not choose.
    """
    index = TrajectoryIndex.open(wanted.file)
    positions = list({entry.key: position for position, entry in enumerate(index.entries)}.values())
    if not positions:
        raise UsageError(f"{str(wanted.file)!r} contains no trajectory")
    tasks = None if wanted.manifest is None else read_manifest(wanted.manifest)
    notes, report = Annotations(wanted.file), Report()
    with _Envs(wanted) as envs, ThreadPoolExecutor(workers, thread_name_prefix="rescore") as pool:
        for trajectory, found in pool.map(lambda at: _scored(index.read(at), envs, tasks), positions):
            if trajectory.failed:
                report.skipped += 1
            elif isinstance(found, Rescored):
                report.scored.append(found)
                notes.add([found.annotation()])
            else:
                report.refused[trajectory.id] = found
    return report


def print_rescored(report: Report, console: Console) -> None:
    """Print what has changed; the new summary is printed as that of any evaluation."""
    lost = [one for one in report.scored if _flipped(one) and one.before.success]
    won = [one for one in report.scored if _flipped(one) and one.trajectory.success]
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
    if trajectory.failed:
        return trajectory, ""
    for left in reversed(range(_TRIES)):
        env = envs.take(trajectory)
        try:
            found = rescore(trajectory, env, None if tasks is None else tasks.find(trajectory.task_id))
        except InfrastructureError as error:
            close(env)
            if not left:
                return trajectory, describe(error)
        except AgentGymError as error:
            envs.give_back(trajectory, env)
            return trajectory, str(error)
        else:
            envs.give_back(trajectory, env)
            return trajectory, found
    raise AssertionError("the last try returns")


def _flipped(one: Rescored) -> bool:
    return one.trajectory.success != one.before.success


def _listed(found: list[Rescored]) -> str:
    names: Iterator[str] = (plain(one.trajectory.id, 100) for one in found[:MAX_SHOWN])
    more = f", … {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
    return f"{len(found)}" + (f": {', '.join(names)}{more}" if found else "")
