"""`Continuation`: finds the finished jobs of an evaluation in its file, and refuses files of other evaluations."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.task_files import moved
from agentgym.eval.results.entry import Entry, hash_of
from agentgym.eval.results.index import TrajectoryIndex
from agentgym.rollout.jobs import EnvFactory, Job

Moves = Mapping[str, str]
"""Maps the current paths of the user's data to the paths when a trajectory was recorded."""


@dataclass(frozen=True)
class Continuation:
    """A file that an evaluation is about to continue."""

    index: TrajectoryIndex
    factory: EnvFactory
    policy: str
    data: Collection[str] = ()
    """Arguments of the environment that name the user's data, which may have moved."""
    _moves: dict[str, Moves] = field(default_factory=dict)
    """By the hash of the recorded arguments."""
    _hashes: dict[tuple[str, str], str] = field(default_factory=dict)
    """Hashes of tasks with the recorded data paths, by the hash of the recorded arguments and the task's id."""

    def done(self, jobs: Iterable[Job]) -> dict[str, Entry]:
        """Return the entries of the jobs that need not run again, by id. Of several tries, the last one counts.

        Raises:
            UsageError: The file holds trajectories of another evaluation, or a trajectory twice.
        """
        jobs_by_id = {job.id: job for job in jobs}
        entries: dict[str, Entry] = {}
        for position, entry in enumerate(self.index.entries):
            self._check_same(position, entry, jobs_by_id.get(entry.id))
            if (before := entries.get(entry.id)) is not None and not before.failed:
                raise UsageError(
                    f"{str(self.index.path)!r} holds {entry.id!r} again after a try that did not fail; remove one of "
                    "them"
                )
            if entry.id in jobs_by_id:
                entries[entry.id] = entry
        return {key: entry for key, entry in entries.items() if not entry.failed}

    @cached_property
    def _arguments(self) -> str:
        return hash_of(self.factory.kwargs)

    def _check_same(self, position: int, entry: Entry, job: Job | None) -> None:
        """Raise `UsageError` if a trajectory was made with other arguments than the run about to start."""
        self._check(entry, "another environment", entry.env_id, self.factory.env_id)
        moves = self._moves_of(position, entry)
        self._check(entry, "another policy", entry.policy, self.policy)
        if job is not None:
            self._check(entry, "other tasks", entry.task_hash, self._hash_of(job, entry, moves))
            self._check(entry, "another seed", entry.seed, job.seed)

    def _moves_of(self, position: int, entry: Entry) -> Moves:
        """Return how the data has moved. Raises `UsageError` if other arguments differ."""
        if entry.arguments == self._arguments:
            return {}
        if entry.arguments not in self._moves:
            recorded, current = self.index.read(position).env_kwargs, self.factory.kwargs
            if self._without_data(recorded) != self._without_data(current):
                self._check(entry, "other environment arguments", json.dumps(recorded), json.dumps(current))
            pairs = {current.get(name): recorded.get(name) for name in self.data}
            self._moves[entry.arguments] = {
                now: before for now, before in pairs.items() if isinstance(now, str) and isinstance(before, str)
            }
        return self._moves[entry.arguments]

    def _without_data(self, arguments: Mapping[str, Any]) -> str:
        return json.dumps({name: value for name, value in arguments.items() if name not in self.data}, sort_keys=True)

    def _hash_of(self, job: Job, entry: Entry, moves: Moves) -> str:
        """Return the hash that a job's task had with the recorded data paths."""
        if not moves:
            return job.task.hash
        key = entry.arguments, job.task.id
        if key not in self._hashes:
            self._hashes[key] = moved(job.task, moves).hash
        return self._hashes[key]

    def _check(self, entry: Entry, what: str, recorded: object, current: object) -> None:
        if recorded != current:
            raise UsageError(
                f"{str(self.index.path)!r} holds trajectories made with {what} ({entry.id!r}: {recorded}, now "
                f"{current}); use the same arguments to continue it, or another file"
            )
