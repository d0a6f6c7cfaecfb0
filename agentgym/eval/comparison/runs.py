"""`Run`: the trajectories of one policy in numbers, as needed for comparisons."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.base.choices import named
from agentgym.base.errors import UsageError
from agentgym.core.task import may_be_same
from agentgym.core.trajectory import Trajectory, read_jsonl
from agentgym.eval.results.entry import Entry, entry_of
from agentgym.eval.results.folder import read_results
from agentgym.eval.results.index import TrajectoryIndex
from agentgym.eval.suites import SuiteId, comparable

_log = logging.getLogger(__name__)

TaskKey = tuple[str, str]
"""The name of an environment (`environment_names`) and the id of a task."""

POLICY_ARGUMENTS = frozenset({"dialect"})
"""Arguments of an environment that belong to the policy: the format of tool calls does not change the tasks."""

WHOLE_SEARCH = "whole search: "
"""Prefix of measures over the whole search behind an episode."""

_SEARCHED = {
    "turns": "turns",
    "sampled_tokens": "tokens out",
    "observed_tokens": "observed tokens",
    "cost": "cost",
    "seconds": "seconds",
}
"""Maps the counts of a search to the corresponding measures of an episode."""
_WHOLE = {name: f"{WHOLE_SEARCH}{name}" for name in _SEARCHED.values()}

_MISSING = "not set"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trajectory, in numbers."""

    key: TaskKey
    task_hash: str
    difficulty: int
    tags: tuple[str, ...]
    failed: bool
    """Whether something around the model failed; the other fields then say nothing about the model."""
    success: bool
    is_searched: bool
    """Whether a search chose the trajectory."""
    measures: dict[str, float]
    """Recorded measures by name."""


@dataclass(frozen=True)
class Run:
    """The attempts of one policy at some tasks."""

    name: str
    """Its source, for messages."""
    policy: str
    arguments: dict[str, dict[str, Any]]
    """Maps the id of an environment to its arguments."""
    tasks: dict[TaskKey, list[Attempt]]
    """Attempts by task; every task has at least one."""
    suites: str | None = None
    """The suites with their content, if the run played suites. The same content means the same arguments and tasks,
    wherever the user's data is."""

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


class RecordedEntry(NamedTuple):
    """One trajectory of a run."""

    env: str
    """The name of its environment (`environment_names`)."""
    entry: Entry
    arguments: Callable[[], dict[str, Any]]
    """Returns the arguments of its environment; may read them from disk."""


def environment_names(entries: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return a name for the environment of each entry: its id, with the entry and the suite if the id is not unique.

    Args:
        entries: The environment's id, the entry's name and the suite's name of each entry.
    """
    ids = Counter(env for env, _, _ in entries)
    named = Counter((env, entry) for env, entry, _ in entries)

    def name(env: str, entry: str, suite: str) -> str:
        if ids[env] == 1:
            return env
        return f"{env} ({entry})" if named[env, entry] == 1 else f"{env} ({suite}: {entry})"

    return [name(*names) for names in entries]


def recorded_in(path: Path, env: str | None = None) -> Iterator[RecordedEntry]:
    """Yield the trajectories of a file, with the help of its index.

    Args:
        path: The file.
        env: A name for their environment instead of its id.

    Raises:
        UsageError: The file cannot be read, or a line is not a trajectory; the message names its place.
    """
    if not path.is_file():  # a pipe has no index; a missing file raises
        yield from (_recorded(trajectory, env) for trajectory in read_jsonl(path))
        return
    index = TrajectoryIndex(path)
    if index.is_cut_off:
        _log.warning("%s: the last line was cut off, as by a crash; it is left out", path)
    for position, entry in enumerate(index.entries):
        yield RecordedEntry(env or entry.env_id, entry, lambda position=position: index.read(position).env_kwargs)


def _recorded(trajectory: Trajectory, env: str | None = None) -> RecordedEntry:
    return RecordedEntry(env or trajectory.env_id, entry_of(trajectory), lambda: trajectory.env_kwargs)


def read_run(path: Path) -> Run:
    """Read a file written by `agentgym eval --out`. Raises `UsageError` unless it holds one policy's episodes."""
    return run_of_recorded(str(path), recorded_in(path))


def run_of(name: str, trajectories: Iterable[Trajectory]) -> Run:
    """Return the run of trajectories. Of several tries at the same attempt, the last one counts.

    Raises:
        UsageError: The trajectories have different policies, arguments or versions of a task, or there are none.
    """
    return run_of_recorded(name, map(_recorded, trajectories))


def run_of_recorded(name: str, trajectories: Iterable[RecordedEntry], *, suites: str | None = None) -> Run:
    """Like `run_of`, with only the entries of the trajectories in memory.

    Args:
        name: Their source, for messages.
        trajectories: The trajectories.
        suites: The suites with their content, if they played suites (`Run.suites`). Their arguments and tasks then
            count as the same even if the user's data has moved.
    """
    policy, attempts = "", dict[tuple[str, str], Attempt]()
    arguments: dict[str, tuple[str, dict[str, Any]]] = {}
    hashes: dict[TaskKey, str] = {}
    for env, entry, read in trajectories:
        if attempts and entry.policy != policy:
            raise UsageError(
                f"{name!r} holds trajectories of two policies, {policy!r} and {entry.policy!r}: compare files"
            )
        policy = entry.policy
        if env not in arguments:
            arguments[env] = entry.arguments, read()
        recorded, key = arguments[env], (env, entry.task_id)
        if suites is None and recorded[0] != entry.arguments:
            raise UsageError(
                f"{name!r} holds trajectories of {env!r} with different arguments: {canonical(recorded[1])} and "
                f"{canonical(read())}"
            )
        if hashes.setdefault(key, entry.task_hash) != entry.task_hash and suites is None:
            raise UsageError(f"{name!r} holds two versions of task {entry.task_id!r}, which have different hashes")
        attempts[env, entry.id] = attempt_of(env, entry)
    if not attempts:
        raise UsageError(f"{name!r} contains no trajectory")
    tasks: dict[TaskKey, list[Attempt]] = {}
    for attempt in attempts.values():
        tasks.setdefault(attempt.key, []).append(attempt)
    return Run(name, policy, {env: values for env, (_, values) in arguments.items()}, tasks, suites)


def check_comparable(a: Run, b: Run) -> None:
    """Raise `UsageError` with the reason if two runs are not of the same tasks in the same environments."""
    if not (shared := a.arguments.keys() & b.arguments.keys()):
        raise UsageError(f"{_where(a)} is of {_listed(a.arguments)}, but {_where(b)} of {_listed(b.arguments)}")
    for env_id in [] if _same_suites(a, b) else sorted(shared):
        mine, theirs = (_without_policys(run.arguments[env_id]) for run in (a, b))
        if different := sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)):
            values = ", ".join(f"{key}: {mine.get(key, _MISSING)} and {theirs.get(key, _MISSING)}" for key in different)
            raise UsageError(f"{_where(a)} and {_where(b)} were made with other arguments of {env_id!r}: {values}")
    for key in [] if _same_suites(a, b) else sorted(a.tasks.keys() & b.tasks.keys()):
        if not may_be_same(a.tasks[key][0].task_hash, b.tasks[key][0].task_hash):
            raise UsageError(
                f"task {key[1]!r} is not the same in {_where(a)} and {_where(b)}: its hash differs, so its prompt, "
                "data or gold was changed in between; evaluate one of them again"
            )
    if not a.tasks.keys() & b.tasks.keys():
        raise UsageError(f"{_where(a)} and {_where(b)} have no task in common; evaluate both on the same --tasks")


def _same_suites(a: Run, b: Run) -> bool:
    return a.suites is not None and a.suites == b.suites


def policy_arguments(a: Run, b: Run) -> dict[str, tuple[Any, Any]]:
    """Return the arguments that differ between two comparable runs because of their policies."""
    differing: dict[str, tuple[Any, Any]] = {}
    for env_id in a.arguments.keys() & b.arguments.keys():
        mine, theirs = a.arguments[env_id], b.arguments[env_id]
        for key in sorted(POLICY_ARGUMENTS & (mine.keys() | theirs.keys())):
            if canonical(mine.get(key)) != canonical(theirs.get(key)):
                differing[key] = mine.get(key), theirs.get(key)
    return differing


def canonical(value: Any) -> str:
    """Return JSON data as canonical text: equal data gives equal text."""
    return json.dumps(value, sort_keys=True)


def attempt_of(env: str, entry: Entry) -> Attempt:
    """Return a trajectory in numbers.

    Args:
        env: The name of its environment.
        entry: Its entry in the index.
    """
    measures = {
        "reward": entry.reward,
        "turns": float(entry.turns),
        "tool calls": entry.counts.get("calls"),
        "tool errors": entry.counts.get("tool_errors"),
        "format errors": entry.counts.get("format_errors"),
        "tokens in": entry.input_tokens,
        "tokens out": entry.sampled_tokens,
        "observed tokens": entry.observed_tokens,
        "cost": entry.usage.get("cost"),
        "seconds": entry.seconds,
        "seconds of generation": entry.generation_s,
        "seconds of environment": entry.environment_s,
    }
    recorded = {name: float(value) for name, value in measures.items() if value is not None}
    recorded |= {_WHOLE[name]: value for name, value in _whole(entry, recorded).items()}
    key = env, entry.task_id
    return Attempt(
        key, entry.task_hash, entry.difficulty, entry.tags, entry.failed, entry.success, bool(entry.search), recorded
    )


def _whole(entry: Entry, line: Mapping[str, float]) -> dict[str, float]:
    """Return the cost of an episode including its search; without a search, that of the episode itself."""
    if not entry.search:
        return {name: line[name] for name in _SEARCHED.values() if name in line}
    return {name: entry.search.get(count, 0.0) for count, name in _SEARCHED.items() if name in line}


def _without_policys(arguments: dict[str, Any]) -> dict[str, str]:
    return {key: canonical(value) for key, value in arguments.items() if key not in POLICY_ARGUMENTS}


def _where(run: Run) -> str:
    return repr(run.name)


def _listed(env_ids: Iterable[str]) -> str:
    return ", ".join(sorted(env_ids))


_SIGN = "@"
"""Separates a folder and the policy in it."""


@dataclass(frozen=True)
class Source:
    """The source of a run.

    Args:
        name: As typed: a file, a folder of results of one policy, or `FOLDER@POLICY`.
    """

    name: str

    @property
    def folder(self) -> Path | None:
        """The folder of results, if it is one."""
        return self._parts[0]

    @property
    def _parts(self) -> tuple[Path | None, str]:
        """The folder and the policy. Both may contain the separator."""
        if not Path(self.name).is_file():
            for end in (len(self.name), *(at for at, letter in enumerate(self.name) if letter == _SIGN)):
                if (path := Path(self.name[:end])).is_dir():
                    return path, self.name[end + 1 :]
        return None, ""

    def run(self) -> Run:
        """Read the run.

        Raises:
            UsageError: It cannot be read, or the policy is unknown or ambiguous; the message lists the policies.
        """
        if self.folder is None:
            return read_run(Path(self.name))
        results = read_results(self.folder)
        rows: list[dict[str, Any]] = results["results"]
        policy = self._policy(self.folder, sorted({row["policy"] for row in rows}))
        mine = [row for row in rows if row["policy"] == policy]
        names = environment_names([(row["summary"]["env_id"], row["entry"], row["suite"]) for row in mine])
        files = zip((self.folder / row["trajectories"] for row in mine), names, strict=True)
        suites = canonical(results["suites"]) if results["suites"] else None
        return run_of_recorded(self.name, chain.from_iterable(starmap(recorded_in, files)), suites=suites)

    def suites(self) -> list[SuiteId]:
        """Return the suites of a folder of results."""
        if self.folder is None:
            return []
        return [SuiteId.from_dict(suite) for suite in read_results(self.folder)["suites"]]

    def _policy(self, folder: Path, policies: list[str]) -> str:
        if policy := self._parts[1]:
            return named("policy", policy, dict(zip(policies, policies, strict=True)))
        if len(policies) != 1:
            choices = " or ".join(f"{folder}{_SIGN}{policy}" for policy in policies) or "no policy is finished"
            raise UsageError(f"{str(folder)!r} holds the results of {len(policies)} policies; name one: {choices}")
        return policies[0]


def check_suites(a: Source, b: Source) -> None:
    """Raise `UsageError` with the reason if two folders hold results on suites that cannot be compared."""
    if a.folder is None or b.folder is None:
        return
    theirs = {suite.name: suite for suite in b.suites()}
    shared = [suite for suite in a.suites() if suite.name in theirs]
    for suite in shared:
        comparable(suite, theirs[suite.name])
    if not shared and a.suites() and theirs:
        comparable(a.suites()[0], b.suites()[0])
