"""Evaluate a policy on tasks with several attempts each. Finished trajectories are saved at once; runs are resumable.

Independent of the model: the same code evaluates a policy under training and an endpoint.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from agentgym.commands.outputs import check_file, held
from agentgym.endings import Reason
from agentgym.errors import UsageError
from agentgym.foreign.errors import describe
from agentgym.policy import Policy
from agentgym.rollout import EnvFactory, Failures, Job, Limits, RolloutEngine, rollouts
from agentgym.rollout.workers.base import Workers
from agentgym.summary import Rate, Summary, print_summary, summarize
from agentgym.task import Task
from agentgym.trajectory import Trajectory, read_jsonl, write_jsonl

__all__ = ["Rate", "Summary", "evaluate", "evaluate_async", "evaluation_jobs", "print_summary", "summarize"]

OnProgress = Callable[[Trajectory, int, int], None]
"""Called with each trajectory, the number finished so far and the total."""


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

    Raises:
        UsageError: The arguments cannot be used, or `out` belongs to another evaluation, is being written by another
            process or cannot be written.
    """
    evaluation = _Evaluation(factory, policy, tasks, attempts, out, seed, on_progress)
    with evaluation.kept() as jobs:
        if jobs:
            with RolloutEngine(factory, policy, limits, workers=workers, failures=failures) as engine:
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
) -> Summary:
    """`evaluate` on the caller's event loop."""
    evaluation = _Evaluation(factory, policy, tasks, attempts, out, seed, on_progress)
    with evaluation.kept() as jobs:
        async with aclosing(rollouts(jobs, policy, factory, limits)) as stream:
            async for trajectory in stream:
                evaluation.add(trajectory)
    return evaluation.summary()


class _Evaluation:
    """The trajectories of an evaluation: those found in its file, and those that are still to be made."""

    def __init__(
        self,
        factory: EnvFactory,
        policy: Policy,
        tasks: Sequence[Task],
        attempts: int,
        out: Path | None,
        seed: int,
        on_progress: OnProgress | None,
    ):
        self._factory, self._policy, self._out, self._seed = factory, policy, out, seed
        self._jobs = evaluation_jobs(tasks, attempts, seed)
        self._report = on_progress or (lambda trajectory, done, total: None)
        self._found: dict[str, Trajectory] = {}
        if out is not None:
            _check_keepable(out, factory)
        self._started = time.perf_counter()

    @contextmanager
    def kept(self) -> Iterator[list[Job]]:
        """Hold the file against other processes, if there is one; provide the jobs that are left."""
        out = self._out
        with nullcontext() if out is None else held(out):
            found = {} if out is None else _already_done(out, self._jobs, self._factory, self._policy)
            for trajectory in found.values():
                self._note(trajectory)
            yield [job for job in self._jobs if job.id not in found]

    def add(self, finished: Trajectory) -> None:
        """Keep a trajectory."""
        self._note(finished if self._out is None else _keep(self._out, finished))

    def summary(self) -> Summary:
        """Return the results so far."""
        seconds = time.perf_counter() - self._started
        return summarize(self._found.values(), seed=self._seed, seconds=seconds, figures=self._factory.figures)

    def _note(self, trajectory: Trajectory) -> None:
        self._found[trajectory.id] = trajectory
        self._report(trajectory, len(self._found), len(self._jobs))


def _keep(out: Path, trajectory: Trajectory) -> Trajectory:
    """Append a trajectory to a file and return what was written. One that could not be read back is kept as failed."""
    try:
        Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict())))
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"the trajectory cannot be written down: {describe(error)}"
        trajectory = replace(
            trajectory, opening=[], turns=[], counts={}, tokens=None, reason=Reason.INFRASTRUCTURE, error=problem
        )
    write_jsonl(out, [trajectory], append=True)
    return trajectory


def evaluation_jobs(tasks: Sequence[Task], attempts: int, seed: int) -> list[Job]:
    """Return the jobs of an evaluation, all tasks once before any task twice. Each task has its own seed."""
    if attempts < 1:
        raise UsageError(f"attempts must be at least 1, not {attempts}")
    if not tasks:
        raise UsageError("there are no tasks to evaluate on")
    if len({task.id for task in tasks}) < len(tasks):
        raise UsageError("a task is given twice; ask for more attempts instead")
    return [Job(task, _seed_of(task, seed), attempt) for attempt in range(attempts) for task in tasks]


def _seed_of(task: Task, seed: int) -> int:
    """Derive a task's seed. It does not depend on the other tasks."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{task.id}".encode()).digest()[:4], "big") >> 1


def _already_done(out: Path, jobs: Sequence[Job], factory: EnvFactory, policy: Policy) -> dict[str, Trajectory]:
    """Return the trajectories in `out` that need not run again, by id. Of several tries, the last one counts."""
    wanted = {job.id: job for job in jobs}
    found: dict[str, Trajectory] = {}
    for trajectory in read_jsonl(out):
        _check_same(out, trajectory, wanted.get(trajectory.id), factory, policy)
        if (before := found.get(trajectory.id)) is not None and not before.failed:
            raise UsageError(
                f"{str(out)!r} holds {trajectory.id!r} again after a try that did not fail; remove one of them"
            )
        if trajectory.id in wanted:
            found[trajectory.id] = trajectory
    return {key: trajectory for key, trajectory in found.items() if not trajectory.failed}


def _check_keepable(out: Path, factory: EnvFactory) -> None:
    check_file(out)
    try:
        json.dumps(factory.kwargs)
    except (TypeError, ValueError) as error:
        raise UsageError(f"these environment arguments cannot be kept in {str(out)!r}: {error}") from error


def _check_same(out: Path, trajectory: Trajectory, job: Job | None, factory: EnvFactory, policy: Policy) -> None:
    """Raise `UsageError` if a trajectory was made with other arguments than the run about to start."""
    pairs: list[tuple[str, object, object]] = [
        ("another environment", trajectory.env_id, factory.env_id),
        ("other environment arguments", _canonical(trajectory.env_kwargs), _canonical(factory.kwargs)),
        ("another policy", trajectory.policy, policy.name),
    ]
    if job is not None:
        pairs += [("other tasks", trajectory.task_hash, job.task.hash), ("another seed", trajectory.seed, job.seed)]
    for what, recorded, given in pairs:
        if recorded != given:
            raise UsageError(
                f"{str(out)!r} holds trajectories made with {what} ({trajectory.id!r}: {recorded}, now {given}); "
                "use the same arguments to continue it, or another file"
            )


def _canonical(kwargs: object) -> str:
    return json.dumps(kwargs, sort_keys=True)
