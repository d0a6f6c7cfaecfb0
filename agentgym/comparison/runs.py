"""`Run`: what a comparison needs to know of the trajectories of one policy, without holding them in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.results.entry import observed_tokens, sampled_tokens
from agentgym.timing import total_times
from agentgym.trajectory import Trajectory, read_jsonl

TaskKey = tuple[str, str]
"""An environment's id and a task's id."""

POLICY_ARGUMENTS = frozenset({"dialect"})
"""Arguments of an environment that belong to the policy: how it writes tool calls does not make another task."""

_NOT_GIVEN = "not given"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trajectory, in numbers."""

    key: TaskKey
    task_hash: str
    difficulty: int
    tags: tuple[str, ...]
    failed: bool
    """Whether something around the model broke: then nothing else here says anything about the model."""
    success: bool
    measures: dict[str, float]
    """By name; what was not recorded is missing."""


@dataclass(frozen=True)
class Run:
    """The attempts of one policy at some tasks."""

    name: str
    """Where it comes from, for messages."""
    policy: str
    arguments: dict[str, dict[str, Any]]
    """Maps the id of an environment to its arguments."""
    tasks: dict[TaskKey, list[Attempt]]
    """Attempts by task; no task is without one."""

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts."""
        return [attempt for attempts in self.tasks.values() for attempt in attempts]

    @property
    def failed(self) -> int:
        """Number of attempts that failed."""
        return sum(attempt.failed for attempt in self.attempts)

    def valid(self, key: TaskKey) -> list[Attempt]:
        """Return the attempts at a task that did not fail."""
        return [attempt for attempt in self.tasks.get(key, ()) if not attempt.failed]


def read_run(path: Path) -> Run:
    """Read the file that `agentgym eval --out` wrote. Raises `UsageError` if it is not that of one policy."""
    return run_of(str(path), read_jsonl(path))


def run_of(name: str, trajectories: Iterable[Trajectory]) -> Run:
    """Return the run that trajectories make up. Of several tries at the same attempt, the last one counts.

    Raises:
        UsageError: There is no trajectory, or they are of different policies, arguments or versions of a task.
    """
    policy, arguments, found = "", {}, {}
    hashes: dict[TaskKey, str] = {}
    for t in trajectories:
        if found and t.policy != policy:
            raise UsageError(f"{name!r} holds trajectories of two policies, {policy!r} and {t.policy!r}: compare files")
        policy = t.policy
        known = arguments.setdefault(t.env_id, t.env_kwargs)
        if canonical(known) != canonical(t.env_kwargs):
            raise UsageError(
                f"{name!r} holds trajectories of {t.env_id!r} with different arguments: {canonical(known)} and "
                f"{canonical(t.env_kwargs)}"
            )
        key = t.env_id, t.task_id
        if hashes.setdefault(key, t.task_hash) != t.task_hash:
            raise UsageError(f"{name!r} holds two versions of task {t.task_id!r}, which have different hashes")
        found[t.env_id, t.id] = _attempt(t)
    if not found:
        raise UsageError(f"{name!r} contains no trajectory")
    tasks: dict[TaskKey, list[Attempt]] = {}
    for attempt in found.values():
        tasks.setdefault(attempt.key, []).append(attempt)
    return Run(name, policy, arguments, tasks)


def check_comparable(a: Run, b: Run) -> None:
    """Raise `UsageError` with the reason if two runs are not of the same tasks in the same environments."""
    if not (shared := a.arguments.keys() & b.arguments.keys()):
        raise UsageError(f"{_where(a)} is of {_listed(a.arguments)}, but {_where(b)} of {_listed(b.arguments)}")
    for env_id in sorted(shared):
        mine, theirs = (_without_policys(run.arguments[env_id]) for run in (a, b))
        if different := sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)):
            values = ", ".join(
                f"{key}: {mine.get(key, _NOT_GIVEN)} and {theirs.get(key, _NOT_GIVEN)}" for key in different
            )
            raise UsageError(f"{_where(a)} and {_where(b)} were made with other arguments of {env_id!r}: {values}")
    for key in sorted(a.tasks.keys() & b.tasks.keys()):
        if a.tasks[key][0].task_hash != b.tasks[key][0].task_hash:
            raise UsageError(
                f"task {key[1]!r} is not the same in {_where(a)} and {_where(b)}: its hash differs, so its prompt, "
                "data or gold was changed in between; evaluate one of them again"
            )
    if not a.tasks.keys() & b.tasks.keys():
        raise UsageError(f"{_where(a)} and {_where(b)} have no task in common; evaluate both on the same --tasks")


def policy_arguments(a: Run, b: Run) -> dict[str, tuple[Any, Any]]:
    """Return the arguments in which two comparable runs differ, because their policies do."""
    found: dict[str, tuple[Any, Any]] = {}
    for env_id in a.arguments.keys() & b.arguments.keys():
        mine, theirs = a.arguments[env_id], b.arguments[env_id]
        for key in sorted(POLICY_ARGUMENTS & (mine.keys() | theirs.keys())):
            if canonical(mine.get(key)) != canonical(theirs.get(key)):
                found[key] = mine.get(key), theirs.get(key)
    return found


def canonical(value: Any) -> str:
    """Return JSON data as text that is the same for the same data."""
    return json.dumps(value, sort_keys=True)


def _attempt(t: Trajectory) -> Attempt:
    generation_s, environment_s = total_times([turn.times for turn in t.turns])
    measures = {
        "reward": t.reward,
        "turns": float(len(t.model_turns)),
        "tool calls": t.counts.get("calls"),
        "tool errors": t.counts.get("tool_errors"),
        "format errors": t.counts.get("format_errors"),
        "sampled tokens": sampled_tokens(t),
        "observed tokens": observed_tokens(t),
        "cost": t.usage.get("cost"),
        "seconds": t.seconds,
        "seconds of generation": generation_s,
        "seconds of environment": environment_s,
    }
    known = {name: float(value) for name, value in measures.items() if value is not None}
    return Attempt((t.env_id, t.task_id), t.task_hash, t.difficulty, t.tags, t.failed, t.success, known)


def _without_policys(arguments: dict[str, Any]) -> dict[str, str]:
    return {key: canonical(value) for key, value in arguments.items() if key not in POLICY_ARGUMENTS}


def _where(run: Run) -> str:
    return repr(run.name)


def _listed(env_ids: Iterable[str]) -> str:
    return ", ".join(sorted(env_ids))
