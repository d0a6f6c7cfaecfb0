"""Evaluates a policy on tasks with several attempts each. Finished trajectories are saved at once; runs are resumable.

The same code evaluates a policy under training and an endpoint.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.base.json_lines import mend_last_line
from agentgym.base.output_files import check_file, held
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import finite
from agentgym.core.foreign import describe, ends_work, place_of, running_task
from agentgym.core.policy import Policy
from agentgym.core.task import Task
from agentgym.core.trajectory import BEGINNING, Trajectory, write_jsonl
from agentgym.eval.results.entry import Entry, entry_of
from agentgym.eval.results.index import StoredTrajectories, TrajectoryIndex
from agentgym.eval.results.provenance import recorded
from agentgym.eval.results.resume import Continuation
from agentgym.eval.summary import Rate, Summary, print_summary, summarize, summarize_entries
from agentgym.rollout import EnvFactory, Failures, Job, Limits, RolloutEngine, rollouts
from agentgym.rollout.feedback import WithFeedback
from agentgym.rollout.lookahead.search import Search
from agentgym.rollout.methods import PLAYED_ONCE, Method
from agentgym.rollout.workers.base import Workers

__all__ = ["Rate", "Summary", "evaluate", "evaluate_async", "evaluation_jobs", "print_summary", "summarize"]

_log = logging.getLogger(__name__)

MAX_EPISODES = 2_000_000
"""Most episodes of one evaluation: each is planned in memory."""

OnProgress = Callable[[Entry, int, int], None]
"""Called with the entry of each trajectory, the number finished so far and the total."""


def evaluate(
    factory: EnvFactory,
    policy: Policy,
    tasks: Sequence[Task],
    attempts: int = 1,
    *,
    out: Path | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    workers: str | Workers = "threads",
    failures: Failures | None = None,
    search: Search | None = None,
    feedback: WithFeedback | None = None,
    data: Collection[str] = (),
) -> Summary:
    """Run `policy` on every task `attempts` times and return the results.

    Args:
        factory: Makes the environments.
        policy: The policy to evaluate.
        tasks: The tasks to evaluate it on.
        attempts: Trajectories per task.
        out: JSONL file to which finished trajectories are appended; `OUT.run` records the command. Trajectories already
            in it are not run again, except failed ones. A file written with other arguments is refused.
        limits: Limits of each rollout.
        seed: Random seed of environments and policies.
        on_progress: Called after each trajectory, including those already in `out`.
        workers: Where the environments run (`RolloutEngine`).
        failures: What to do about episodes that fail (`RolloutEngine`).
        search: Looks ahead with the policy and records the chosen line of play, under a policy name of its own.
        feedback: Lets a simulated user comment on the turns, under a policy name of its own.
        data: Arguments of the environment that name the user's data. `out` may be continued after the data has moved.

    Raises:
        UsageError: The arguments are not valid, or `out` belongs to another evaluation, is being written by another
            process or cannot be written.
    """
    method = _method(search, feedback)
    evaluation = Evaluation(factory, method.named(policy.name), tasks, attempts, out, seed, on_progress, data)
    with evaluation.open() as jobs:
        if jobs:
            with RolloutEngine(factory, policy, limits, workers=workers, failures=failures, method=method) as engine:
                for trajectory in engine.trajectories(jobs):
                    evaluation.add(trajectory)
    return evaluation.summary()


async def evaluate_async(
    factory: EnvFactory,
    policy: Policy,
    tasks: Sequence[Task],
    attempts: int = 1,
    *,
    out: Path | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    search: Search | None = None,
    feedback: WithFeedback | None = None,
    data: Collection[str] = (),
) -> Summary:
    """`evaluate` on the caller's event loop."""
    method = _method(search, feedback)
    evaluation = Evaluation(factory, method.named(policy.name), tasks, attempts, out, seed, on_progress, data)
    with evaluation.open() as jobs:
        async with aclosing(rollouts(jobs, policy, factory, limits, method=method)) as stream:
            async for trajectory in stream:
                evaluation.add(trajectory)
    return evaluation.summary()


def _method(search: Search | None, feedback: WithFeedback | None) -> Method:
    if search is not None and feedback is not None:
        raise UsageError("feedback and a search cannot be combined: a search plays turns that no user sees")
    return search or feedback or PLAYED_ONCE


class Evaluation:
    """The trajectories of an evaluation, in its file and still to be played.

    With a file, only their entries are in memory.
    """

    def __init__(
        self,
        factory: EnvFactory,
        policy: str,
        tasks: Sequence[Task],
        attempts: int,
        out: Path | None,
        seed: int,
        on_progress: OnProgress | None,
        data: Collection[str] = (),
    ):
        self._factory, self._policy, self._data = factory, policy, data
        out = None if out is None else out.absolute()  # an environment may change the working directory
        self._out = out
        self._seed, self._jobs = seed, evaluation_jobs(tasks, attempts, seed)
        self._report = on_progress or (lambda entry, done, total: None)
        self._entries: dict[str, Entry] = {}
        if out is not None:
            _check_writable(out, factory)
        self._index: TrajectoryIndex | None = None
        self._played: dict[str, Trajectory] = {}
        """The trajectories by id, unless they can be read from a file; pipes and devices cannot."""
        self._started = time.perf_counter()

    @contextmanager
    def open(self) -> Iterator[list[Job]]:
        """Lock the file, if there is one, record the command, and provide the unfinished jobs."""
        out = self._out
        with nullcontext() if out is None else held(out):
            if out is not None and out.is_file():
                self._index = TrajectoryIndex(out)
                mend_last_line(out, BEGINNING)  # raises before the first episode is played for nothing
            done = self._finished()
            with self._recorded():
                for entry in done.values():
                    self._note(entry)
                try:
                    yield [job for job in self._jobs if job.id not in done]
                finally:
                    if self._index is not None:
                        self._index.save()

    def _recorded(self) -> AbstractContextManager[None]:
        """Record the provenance of the file; pipes and devices have no folder for that."""
        return recorded(self._out, seed=self._seed) if self._out is not None and self._out.is_file() else nullcontext()

    def _finished(self) -> dict[str, Entry]:
        """Return the entries of the jobs that need not run again."""
        if self._index is None:
            return {}
        return Continuation(self._index, self._factory, self._policy, self._data).done(self._jobs)

    def add(self, finished: Trajectory) -> None:
        """Store a trajectory."""
        if self._out is not None:
            finished = _readable(finished)
        if self._index is not None:
            self._note(self._index.add(finished))
            return
        if self._out is not None:
            write_jsonl(self._out, [finished], append=True)
        self._played[finished.id] = finished
        self._note(entry_of(finished))

    def summary(self) -> Summary:
        """Return the results so far."""
        seconds = time.perf_counter() - self._started
        figures = _figures(self._factory, self._valid())
        return summarize_entries(self._entries.values(), seconds=seconds, figures=figures)

    def _valid(self) -> Sequence[Trajectory]:
        """Return the trajectories that did not fail, in the order of tasks and attempts."""
        valid = sorted((e for e in self._entries.values() if not e.failed), key=lambda e: (e.task_id, e.attempt))
        if self._index is None:
            return [self._played[entry.id] for entry in valid]
        return StoredTrajectories(self._index, valid)

    def _note(self, entry: Entry) -> None:
        self._entries[entry.id] = entry
        self._report(entry, len(self._entries), len(self._jobs))


def _figures(factory: EnvFactory, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the environment's own metrics. Metrics that cannot be computed are only logged."""
    try:
        values = dict(factory.figures(trajectories) or {})
    except BaseException as error:
        if ends_work(error, running_task()):
            raise
        _log.warning("the figures of %s cannot be computed: %s%s", factory.env_id, describe(error), place_of(error))
        return {}
    figures: dict[str, float] = {}
    for name, value in values.items():
        try:
            figures |= finite({str(name): value})
        except InfrastructureError:
            _log.warning("the figure %r of %s is left out: %r is not a finite number", name, factory.env_id, value)
    return figures


def _readable(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory, or a failed one in its place if it cannot be written and read back."""
    try:
        Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict(), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"the trajectory cannot be written as JSON: {describe(error)}"
        return replace(
            trajectory, opening=[], turns=[], counts={}, tokens=None, reason=Reason.INFRASTRUCTURE, error=problem
        )
    return trajectory


def evaluation_jobs(tasks: Sequence[Task], attempts: int, seed: int) -> list[Job]:
    """Return the jobs of an evaluation, all tasks once before any task twice. Each task has its own seed."""
    if attempts < 1:
        raise UsageError(f"attempts must be at least 1, not {attempts}")
    if not tasks:
        raise UsageError("an evaluation needs at least one task")
    if (count := attempts * len(tasks)) > MAX_EPISODES:
        raise UsageError(f"one evaluation holds at most {MAX_EPISODES:,} episodes, not {count:,}")
    if len({task.id for task in tasks}) < len(tasks):
        raise UsageError("a task appears twice; set more attempts instead")
    return [Job(task, _seed_of(task, seed), attempt) for attempt in range(attempts) for task in tasks]


def _seed_of(task: Task, seed: int) -> int:
    """Return a task's seed, which does not depend on the other tasks."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{task.id}".encode()).digest()[:4], "big") >> 1


def _check_writable(out: Path, factory: EnvFactory) -> None:
    check_file(out)
    try:
        json.dumps(factory.kwargs)
    except (TypeError, ValueError) as error:
        raise UsageError(f"these environment arguments cannot be written to {str(out)!r}: {error}") from error
