"""`Run`: what a comparison needs to know of the trajectories of one policy, without holding them in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.results.entry import observed_tokens, sampled_tokens
from agentgym.timing import total_times
from agentgym.trajectory import Trajectory, read_jsonl

TaskKey = tuple[str, str]
"""An environment's id, with the entry of the suite if several have the environment, and a task's id."""

POLICY_ARGUMENTS = frozenset({"dialect"})
"""Arguments of an environment that belong to the policy: how it writes tool calls does not make another task."""

WHOLE_SEARCH = "whole search: "
"""The beginning of measures over the whole search behind an episode."""

_SEARCHED = {
    "turns": "turns",
    "sampled_tokens": "sampled tokens",
    "observed_tokens": "observed tokens",
    "cost": "cost",
    "seconds": "seconds",
}
"""Maps what a search counts to the measure of an episode that it belongs to."""

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
    is_searched: bool
    """Whether a search chose it."""
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
    suites: str | None = None
    """The suites with their content, if it is of suites. The same content means the same arguments and tasks, wherever
    the user's data is."""

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
    return run_of_entries(name, ((t.env_id, t) for t in trajectories))


def run_of_entries(name: str, trajectories: Iterable[tuple[str, Trajectory]]) -> Run:
    """`run_of`, where each trajectory comes with a name for its environment."""
    policy, arguments, found = "", {}, {}
    hashes: dict[TaskKey, str] = {}
    for env, t in trajectories:
        if found and t.policy != policy:
            raise UsageError(f"{name!r} holds trajectories of two policies, {policy!r} and {t.policy!r}: compare files")
        policy = t.policy
        known = arguments.setdefault(env, t.env_kwargs)
        if canonical(known) != canonical(t.env_kwargs):
            raise UsageError(
                f"{name!r} holds trajectories of {env!r} with different arguments: {canonical(known)} and "
                f"{canonical(t.env_kwargs)}"
            )
        key = env, t.task_id
        if hashes.setdefault(key, t.task_hash) != t.task_hash:
            raise UsageError(f"{name!r} holds two versions of task {t.task_id!r}, which have different hashes")
        found[env, t.id] = _attempt(env, t)
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
    for env_id in [] if _same_suites(a, b) else sorted(shared):
        mine, theirs = (_without_policys(run.arguments[env_id]) for run in (a, b))
        if different := sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)):
            values = ", ".join(
                f"{key}: {mine.get(key, _NOT_GIVEN)} and {theirs.get(key, _NOT_GIVEN)}" for key in different
            )
            raise UsageError(f"{_where(a)} and {_where(b)} were made with other arguments of {env_id!r}: {values}")
    for key in [] if _same_suites(a, b) else sorted(a.tasks.keys() & b.tasks.keys()):
        if a.tasks[key][0].task_hash != b.tasks[key][0].task_hash:
            raise UsageError(
                f"task {key[1]!r} is not the same in {_where(a)} and {_where(b)}: its hash differs, so its prompt, "
                "data or gold was changed in between; evaluate one of them again"
            )
    if not a.tasks.keys() & b.tasks.keys():
        raise UsageError(f"{_where(a)} and {_where(b)} have no task in common; evaluate both on the same --tasks")


def _same_suites(a: Run, b: Run) -> bool:
    return a.suites is not None and a.suites == b.suites


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


def _attempt(env: str, t: Trajectory) -> Attempt:
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
    known |= {f"{WHOLE_SEARCH}{name}": value for name, value in _whole(t, known).items()}
    return Attempt((env, t.task_id), t.task_hash, t.difficulty, t.tags, t.failed, t.success, bool(t.search), known)


def _whole(t: Trajectory, line: Mapping[str, float]) -> dict[str, float]:
    """Return what an episode took with the search behind it. Without one, that is what it took itself."""
    if not t.search:
        return {name: line[name] for name in _SEARCHED.values() if name in line}
    return {name: t.search.get(count, 0.0) for count, name in _SEARCHED.items() if name in line}


def _without_policys(arguments: dict[str, Any]) -> dict[str, str]:
    return {key: canonical(value) for key, value in arguments.items() if key not in POLICY_ARGUMENTS}


def _where(run: Run) -> str:
    return repr(run.name)


def _listed(env_ids: Iterable[str]) -> str:
    return ", ".join(sorted(env_ids))
