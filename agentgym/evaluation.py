"""Evaluate a policy on tasks with several attempts each. Finished trajectories are saved at once; runs are resumable.

Independent of the model: the same code evaluates a policy under training and an endpoint.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from agentgym.endings import Reason
from agentgym.engine.answers import finite
from agentgym.errors import InfrastructureError, UsageError
from agentgym.feedback.with_feedback import WithFeedback
from agentgym.foreign.errors import describe, ends_work, place_of, running_task
from agentgym.lookahead.search import Search
from agentgym.policy import Policy
from agentgym.results.entry import Entry, entry_of
from agentgym.results.index import StoredTrajectories, TrajectoryIndex
from agentgym.results.outputs import check_file, held
from agentgym.results.resume import Continuation
from agentgym.rollout import EnvFactory, Failures, Job, Limits, RolloutEngine, rollouts
from agentgym.rollout.methods import PLAYED_ONCE, Method
from agentgym.rollout.workers.base import Workers
from agentgym.summary import Rate, Summary, print_summary, summarize, summarize_entries
from agentgym.task import Task
from agentgym.trajectory import Trajectory, write_jsonl

__all__ = ["Rate", "Summary", "evaluate", "evaluate_async", "evaluation_jobs", "print_summary", "summarize"]

_log = logging.getLogger(__name__)

MAX_EPISODES = 2_000_000
"""Most episodes of one evaluation: each is planned in memory."""

OnProgress = Callable[[Entry, int, int], None]
"""Called with the short facts of each trajectory, the number finished so far and the total."""


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
        out: JSONL file to which each finished trajectory is appended. Trajectories already in it are not run again,
            except failed ones. A file made with other arguments is refused.
        limits: Limits of each rollout.
        seed: Random seed of environments and policies.
        on_progress: Called after each trajectory, including those found in `out`.
        workers: Where the environments run (`RolloutEngine`).
        failures: What to do about episodes that fail (`RolloutEngine`).
        search: Looks ahead with the policy and records the chosen line of play; such a policy is another one.
        feedback: Lets a simulated user comment on the turns; such a policy is another one too.
        data: Arguments of the environment that say where the user's data is. A file that was made with the same data
            elsewhere is continued.

    Raises:
        UsageError: The arguments cannot be used, or `out` belongs to another evaluation, is being written by another
            process or cannot be written.
    """
    method = _method(search, feedback)
    evaluation = _Evaluation(factory, method.named(policy.name), tasks, attempts, out, seed, on_progress, data)
    with evaluation.kept() as jobs:
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
    evaluation = _Evaluation(factory, method.named(policy.name), tasks, attempts, out, seed, on_progress, data)
    with evaluation.kept() as jobs:
        async with aclosing(rollouts(jobs, policy, factory, limits, method=method)) as stream:
            async for trajectory in stream:
                evaluation.add(trajectory)
    return evaluation.summary()


def _method(search: Search | None, feedback: WithFeedback | None) -> Method:
    if search is not None and feedback is not None:
        raise UsageError("feedback and a search cannot be combined: a search plays turns that no user sees")
    return search or feedback or PLAYED_ONCE


class _Evaluation:
    """The trajectories of an evaluation: those found in its file, and those that are still to be made.

    With a file, only their entries are held in memory.
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
        data: Collection[str],
    ):
        self._factory, self._policy, self._data = factory, policy, data
        out = None if out is None else out.absolute()  # an environment may change the working directory
        self._out = out
        self._jobs = evaluation_jobs(tasks, attempts, seed)
        self._report = on_progress or (lambda entry, done, total: None)
        self._entries: dict[str, Entry] = {}
        if out is not None:
            _check_keepable(out, factory)
        self._index: TrajectoryIndex | None = None
        self._played: dict[str, Trajectory] = {}
        """Without a file to read them from; a pipe or a device is none."""
        self._started = time.perf_counter()

    @contextmanager
    def kept(self) -> Iterator[list[Job]]:
        """Hold the file against other processes, if there is one; provide the jobs that are left."""
        out = self._out
        with nullcontext() if out is None else held(out):
            if out is not None and out.is_file():
                self._index = TrajectoryIndex(out)
            found = self._found()
            for entry in found.values():
                self._note(entry)
            try:
                yield [job for job in self._jobs if job.id not in found]
            finally:
                if self._index is not None:
                    self._index.save()

    def _found(self) -> dict[str, Entry]:
        """Return what need not run again."""
        if self._index is None:
            return {}
        return Continuation(self._index, self._factory, self._policy, self._data).done(self._jobs)

    def add(self, finished: Trajectory) -> None:
        """Keep a trajectory."""
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
        chosen = sorted((e for e in self._entries.values() if not e.failed), key=lambda e: (e.task_id, e.attempt))
        if self._index is None:
            return [self._played[entry.id] for entry in chosen]
        return StoredTrajectories(self._index, chosen)

    def _note(self, entry: Entry) -> None:
        self._entries[entry.id] = entry
        self._report(entry, len(self._entries), len(self._jobs))


def _figures(factory: EnvFactory, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the environment's own metrics. Those that cannot be computed are logged, and lose no other result."""
    try:
        found = dict(factory.figures(trajectories) or {})
    except BaseException as error:
        if ends_work(error, running_task()):
            raise
        _log.warning("the figures of %s cannot be computed: %s%s", factory.env_id, describe(error), place_of(error))
        return {}
    figures: dict[str, float] = {}
    for name, value in found.items():
        try:
            figures |= finite({str(name): value})
        except InfrastructureError:
            _log.warning("the figure %r of %s is left out: %r is no finite number", name, factory.env_id, value)
    return figures


def _readable(trajectory: Trajectory) -> Trajectory:
    """Return a trajectory that can be written and read back: if this one cannot, one that failed in its place."""
    try:
        Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict(), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"the trajectory cannot be written down: {describe(error)}"
        return replace(
            trajectory, opening=[], turns=[], counts={}, tokens=None, reason=Reason.INFRASTRUCTURE, error=problem
        )
    return trajectory


def evaluation_jobs(tasks: Sequence[Task], attempts: int, seed: int) -> list[Job]:
    """Return the jobs of an evaluation, all tasks once before any task twice. Each task has its own seed."""
    if attempts < 1:
        raise UsageError(f"attempts must be at least 1, not {attempts}")
    if not tasks:
        raise UsageError("there are no tasks to evaluate on")
    if (count := attempts * len(tasks)) > MAX_EPISODES:
        raise UsageError(f"{count:,} episodes are asked for, of which at most {MAX_EPISODES:,} fit into one evaluation")
    if len({task.id for task in tasks}) < len(tasks):
        raise UsageError("a task is given twice; ask for more attempts instead")
    return [Job(task, _seed_of(task, seed), attempt) for attempt in range(attempts) for task in tasks]


def _seed_of(task: Task, seed: int) -> int:
    """Derive a task's seed. It does not depend on the other tasks."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{task.id}".encode()).digest()[:4], "big") >> 1


def _check_keepable(out: Path, factory: EnvFactory) -> None:
    check_file(out)
    try:
        json.dumps(factory.kwargs)
    except (TypeError, ValueError) as error:
        raise UsageError(f"these environment arguments cannot be kept in {str(out)!r}: {error}") from error
