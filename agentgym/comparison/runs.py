"""`Run`: what a comparison needs to know of the trajectories of one policy, without holding them in memory."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.errors import UsageError
from agentgym.results.entry import Entry, entry_of
from agentgym.results.index import TrajectoryIndex
from agentgym.trajectory import Trajectory, read_jsonl

_log = logging.getLogger(__name__)

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
_WHOLE = {name: f"{WHOLE_SEARCH}{name}" for name in _SEARCHED.values()}

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


class Recorded(NamedTuple):
    """One trajectory of a run."""

    env: str
    """The id of its environment, with the entry of the suite if several have the environment."""
    entry: Entry
    arguments: Callable[[], dict[str, Any]]
    """Returns the arguments of its environment, which may have to be read."""


def environment_names(entries: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return a name for the environment of each entry: its id, with as much more as tells it from the others.

    Args:
        entries: The environment's id, the entry's name and the suite's name, of each.
    """
    ids = Counter(env for env, _, _ in entries)
    named = Counter((env, entry) for env, entry, _ in entries)

    def name(env: str, entry: str, suite: str) -> str:
        if ids[env] == 1:
            return env
        return f"{env} ({entry})" if named[env, entry] == 1 else f"{env} ({suite}: {entry})"

    return [name(*one) for one in entries]


def recorded_in(path: Path, env: str | None = None) -> Iterator[Recorded]:
    """Yield the trajectories of a file, whose index is made or used.

    Args:
        path: The file.
        env: A name for their environment, instead of its id.

    Raises:
        UsageError: The file cannot be read, or a line is not a trajectory; the message names its place.
    """
    if not path.is_file():  # a pipe has no index, and what does not exist is reported
        yield from (_recorded(trajectory, env) for trajectory in read_jsonl(path))
        return
    index = TrajectoryIndex(path)
    if index.is_cut_off:
        _log.warning("%s: the last line was cut off, as by a crash; it is left out", path)
    for position, entry in enumerate(index.entries):
        yield Recorded(env or entry.env_id, entry, lambda position=position: index.read(position).env_kwargs)


def _recorded(trajectory: Trajectory, env: str | None = None) -> Recorded:
    return Recorded(env or trajectory.env_id, entry_of(trajectory), lambda: trajectory.env_kwargs)


def read_run(path: Path) -> Run:
    """Read the file that `agentgym eval --out` wrote. Raises `UsageError` if it is not that of one policy."""
    return run_of_recorded(str(path), recorded_in(path))


def run_of(name: str, trajectories: Iterable[Trajectory]) -> Run:
    """Return the run that trajectories make up. Of several tries at the same attempt, the last one counts.

    Raises:
        UsageError: There is no trajectory, or they are of different policies, arguments or versions of a task.
    """
    return run_of_recorded(name, map(_recorded, trajectories))


def run_of_recorded(name: str, trajectories: Iterable[Recorded], *, suites: str | None = None) -> Run:
    """`run_of`, without the trajectories themselves.

    Args:
        name: Where they come from, for messages.
        trajectories: The trajectories.
        suites: The suites with their content, if they are of suites (`Run.suites`). Then they are of the same arguments
            and tasks, even if the user's data was moved in between.
    """
    policy, found = "", dict[tuple[str, str], Attempt]()
    arguments: dict[str, tuple[str, dict[str, Any]]] = {}
    hashes: dict[TaskKey, str] = {}
    for env, entry, read in trajectories:
        if found and entry.policy != policy:
            raise UsageError(
                f"{name!r} holds trajectories of two policies, {policy!r} and {entry.policy!r}: compare files"
            )
        policy = entry.policy
        if env not in arguments:
            arguments[env] = entry.arguments, read()
        known, key = arguments[env], (env, entry.task_id)
        if suites is None and known[0] != entry.arguments:
            raise UsageError(
                f"{name!r} holds trajectories of {env!r} with different arguments: {canonical(known[1])} and "
                f"{canonical(read())}"
            )
        if hashes.setdefault(key, entry.task_hash) != entry.task_hash and suites is None:
            raise UsageError(f"{name!r} holds two versions of task {entry.task_id!r}, which have different hashes")
        found[env, entry.id] = attempt_of(env, entry)
    if not found:
        raise UsageError(f"{name!r} contains no trajectory")
    tasks: dict[TaskKey, list[Attempt]] = {}
    for attempt in found.values():
        tasks.setdefault(attempt.key, []).append(attempt)
    return Run(name, policy, {env: values for env, (_, values) in arguments.items()}, tasks, suites)


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


def attempt_of(env: str, one: Entry) -> Attempt:
    """Return a trajectory in numbers.

    Args:
        env: The name of its environment.
        one: What the index knows of it.
    """
    measures = {
        "reward": one.reward,
        "turns": float(one.turns),
        "tool calls": one.counts.get("calls"),
        "tool errors": one.counts.get("tool_errors"),
        "format errors": one.counts.get("format_errors"),
        "sampled tokens": one.sampled_tokens,
        "observed tokens": one.observed_tokens,
        "cost": one.usage.get("cost"),
        "seconds": one.seconds,
        "seconds of generation": one.generation_s,
        "seconds of environment": one.environment_s,
    }
    known = {name: float(value) for name, value in measures.items() if value is not None}
    known |= {_WHOLE[name]: value for name, value in _whole(one, known).items()}
    key = env, one.task_id
    return Attempt(key, one.task_hash, one.difficulty, one.tags, one.failed, one.success, bool(one.search), known)


def _whole(one: Entry, line: Mapping[str, float]) -> dict[str, float]:
    """Return what an episode took with the search behind it. Without one, that is what it took itself."""
    if not one.search:
        return {name: line[name] for name in _SEARCHED.values() if name in line}
    return {name: one.search.get(count, 0.0) for count, name in _SEARCHED.items() if name in line}


def _without_policys(arguments: dict[str, Any]) -> dict[str, str]:
    return {key: canonical(value) for key, value in arguments.items() if key not in POLICY_ARGUMENTS}


def _where(run: Run) -> str:
    return repr(run.name)


def _listed(env_ids: Iterable[str]) -> str:
    return ", ".join(sorted(env_ids))
