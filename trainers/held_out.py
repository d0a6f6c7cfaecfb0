"""`HeldOut`: evaluation on held-out tasks before and after training, spread over all processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelerate import PartialState

from agentgym.core.policy import Policy
from agentgym.core.task import TaskSource, iterate
from agentgym.core.trajectory import Trajectory
from agentgym.eval.evaluation import Evaluation, evaluation_jobs
from agentgym.eval.summary import Summary
from agentgym.rollout import EnvFactory, Job, RolloutEngine
from agentgym.trainers import ranks
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.logbook.progress import RunProgress
from agentgym.trainers.trl_config import eval_split_of, failures_of, limits_of


class HeldOut:
    """Evaluates on held-out tasks before and after training, with the sampling of training.

    Each process plays a share of the tasks with its own model or engine. An episode depends on its task and the seed
    alone, so the results do not depend on the number of processes.
    """

    def __init__(self, config: TrainConfig, factory: EnvFactory, source: TaskSource, progress: RunProgress):
        self._config, self._factory, self._progress = config, factory, progress
        self._tasks = list(iterate(source, eval_split_of(config, source), limit=config.eval_tasks))

    def evaluate(self, policy: Policy, when: str, *, resume: bool = False) -> Summary:
        """Evaluate. All processes must call this.

        The main process writes the trajectories of all to `eval-<when>.jsonl` as they come, for a resumed run.
        """
        if PartialState().is_main_process:
            return ranks.from_main(self._evaluate(policy, when, resume))
        for _ in self._played(policy, when, None):
            pass
        return ranks.from_main(None)

    def _evaluate(self, policy: Policy, when: str, resume: bool) -> Summary:
        config, out = self._config, self._config.folder / f"eval-{when}.jsonl"
        if not resume:
            out.unlink(missing_ok=True)
        evaluation = Evaluation(
            self._factory,
            policy.name,
            self._tasks,
            config.eval_attempts,
            out=out,
            seed=config.seed,
            on_progress=lambda _, done, of: self._progress(f"evaluation {when}", done, of),
        )
        with evaluation.open() as jobs:
            for trajectory in self._played(policy, when, jobs):
                evaluation.add(trajectory)
        return evaluation.summary()

    def _played(self, policy: Policy, when: str, unfinished: Sequence[Job] | None) -> Iterator[Trajectory]:
        """Play a share of the unfinished jobs, which only the main process knows; there, yield all trajectories."""
        ids = ranks.from_main(None if unfinished is None else [job.id for job in unfinished])
        jobs = {job.id: job for job in evaluation_jobs(self._tasks, self._config.eval_attempts, self._config.seed)}
        state = PartialState()
        share = [jobs[job_id] for job_id in ids[state.process_index :: state.num_processes]]
        return ranks.to_main(self._trajectories(policy, when, share))

    def _trajectories(self, policy: Policy, when: str, jobs: Sequence[Job]) -> Iterator[Trajectory]:
        if not jobs:
            return
        config = self._config
        with RolloutEngine(
            self._factory, policy, limits_of(config), workers=config.placed, failures=failures_of(config)
        ) as engine:
            ranks.report(f"evaluation {when}")
            for number, trajectory in enumerate(engine.trajectories(jobs), start=1):
                ranks.report(f"evaluation {when}: {number} of {len(jobs)}")
                yield trajectory
