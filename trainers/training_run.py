"""The parts of a run that sample and learn: evaluation on held-out tasks, and reinforcement learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PrinterCallback

from agentgym.base.errors import UsageError
from agentgym.core.policy import Policy
from agentgym.core.task import TaskSource, iterate
from agentgym.eval.evaluation import Summary, evaluate
from agentgym.rollout import EnvFactory
from agentgym.rollout.fitness import why_barren
from agentgym.trainers import ranks
from agentgym.trainers.batches import BatchRollouts, task_rows
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.grpo import AgentGRPOTrainer
from agentgym.trainers.kl import StartingPolicy
from agentgym.trainers.logbook.card import write_card
from agentgym.trainers.logbook.metrics import batch_metrics
from agentgym.trainers.logbook.progress import RunProgress
from agentgym.trainers.logbook.records import MarkComplete, TrajectoryLog, recorded_positions
from agentgym.trainers.logbook.run_log import RunLog
from agentgym.trainers.policies import describe_training, policy_of
from agentgym.trainers.run_folder import PlannedRun, step_of
from agentgym.trainers.sampled_batch import SampledBatch
from agentgym.trainers.scores import TrainerLogprobs
from agentgym.trainers.transformers_policy import TransformersPolicy
from agentgym.trainers.trl_config import (
    eval_split_of,
    failures_of,
    grpo_config,
    limits_of,
    peft_config,
    refuse_sharded,
)
from agentgym.trainers.trl_seam import engine_of, sync_engine
from agentgym.trainers.vllm.engine import trl_engine
from agentgym.trainers.vllm.policy import VLLMPolicy
from agentgym.trainers.vllm.sync import SyncCheck, check_syncs

_BARREN_TURNS = 100
"""A run stops after this many consecutive turns in steps whose turns were all unreadable."""


class HeldOut:
    """Evaluates on held-out tasks before and after training, with the sampling of training."""

    def __init__(self, config: TrainConfig, factory: EnvFactory, source: TaskSource, progress: RunProgress):
        self._config, self._factory, self._progress = config, factory, progress
        self._tasks = list(iterate(source, eval_split_of(config, source), limit=config.eval_tasks))

    def evaluate(self, policy: Policy, when: str, *, resume: bool = False) -> Summary:
        """Evaluate on the main process, while the others wait for its summary.

        `eval-<when>.jsonl` keeps the trajectories for a resumed run.
        """
        if not PartialState().is_main_process:
            return ranks.from_main(None)
        out = self._config.folder / f"eval-{when}.jsonl"
        if not resume:
            out.unlink(missing_ok=True)
        return ranks.from_main(self._evaluate(policy, when, out))

    def _evaluate(self, policy: Policy, when: str, out: Path) -> Summary:
        config = self._config
        return evaluate(
            self._factory,
            policy,
            self._tasks,
            config.eval_attempts,
            out=out,
            limits=limits_of(config),
            seed=config.seed,
            workers=config.placed,
            failures=failures_of(config),
            on_progress=lambda _, done, of: self._progress(f"evaluation {when}", done, of),
        )


class TrainingRun:
    """The reinforcement learning part of a run."""

    def __init__(
        self,
        config: TrainConfig,
        factory: EnvFactory,
        source: TaskSource,
        credit: Credit,
        model: Any,
        tokenizer: Any,
        progress: RunProgress,
    ):
        self._config, self._factory, self._credit, self._progress = config, factory, credit, progress
        self._start = StartingPolicy(
            model, use_copy=config.track_kl and not config.lora_rank, temperature=config.temperature
        )
        self._tokenizer = tokenizer
        arguments = grpo_config(config, world_size=ranks.world_size(), use_cpu=not torch.cuda.is_available())
        # The policy samples from the weights that are being trained; `_adopt` connects them once the trainer has
        # wrapped the model.
        self._policy = policy_of(config, model, tokenizer, slots=min(config.max_in_flight, config.batch))
        self._rollouts = BatchRollouts(
            self._policy,
            factory,
            source,
            credit,
            limits_of(config),
            refill_rounds=config.refill_rounds,
            seed=config.seed,
            workers=config.placed,
            failures=failures_of(config),
        )
        self._log = RunLog(config, progress)
        self._trajectories: TrajectoryLog | None = None
        self._before: Summary | None = None
        self._barren = BarrenTurns()
        with trl_engine(config, model, tokenizer):
            self._trainer = AgentGRPOTrainer(
                model=model,
                args=arguments,
                processing_class=tokenizer,
                train_dataset=task_rows(source, config.steps * config.groups, config.seed),
                peft_config=peft_config(config),
                rollouts=self._rollouts,
                credit=credit,
                on_batch=self._on_batch,
                on_scores=self._on_scores if config.record_logprobs else None,
                callbacks=[MarkComplete(lambda folder: self._describe(folder, step_of(folder)))],
            )
        # Runs before the callbacks that log elsewhere, so that they see what it adds.
        self._trainer.callback_handler.callbacks.insert(0, self._log)
        self._trainer.remove_callback(PrinterCallback)  # RunProgress shows the progress
        refuse_sharded(config, self._trainer.accelerator)
        self._sync_check = _adopt(self._policy, self._trainer)

    def evaluation_policy(self) -> Policy:
        """Return a policy with the current weights. All processes must call this."""
        if isinstance(self._policy, VLLMPolicy):
            sync_engine(self._trainer)
            return self._policy
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        return policy_of(self._config, model, self._tokenizer, slots=min(self._config.max_in_flight, 128))

    def train(self, run: PlannedRun, before: Summary) -> None:
        """Train, starting from the run's checkpoint if there is one, and save the trained model.

        Args:
            run: The run.
            before: The evaluation before training, for the model cards of checkpoints.
        """
        self._before, checkpoint = before, run.checkpoint
        if PartialState().is_main_process:
            self._log.open(resume_at=run.step if checkpoint else None)
            self._trajectories = TrajectoryLog(self._config.folder, self._credit.mode, resume_at=run.step)
            self._progress("training", run.step, self._config.steps)
        try:
            if checkpoint is None:
                self._trainer.train()
            else:
                self._trainer.resume(checkpoint)
        except torch.OutOfMemoryError as error:
            raise UsageError(
                f"out of memory: {str(error).splitlines()[0]} Lower micro_batch or context, or set "
                "gradient_checkpointing: true, bf16: true or lora_rank: 16."
            ) from error
        finally:
            self._rollouts.close()
            self._log.close()
        final = self._config.folder / "model"
        self._trainer.save_model(str(final))
        if self._trainer.is_world_process_zero():
            self._describe(final, self._config.steps)

    def _describe(self, folder: Path, step: int) -> None:
        """Record the run's environment in a model's folder, for evaluations, and write its card."""
        describe_training(folder, self._factory.env_id, self._factory.kwargs)
        write_card(folder, self._config, step, {"before training": self._before})

    def _on_batch(self, batch: SampledBatch, step: int) -> None:
        """Log a batch as it was sampled, before any group was replaced."""
        numbers = batch.numbers
        metrics = batch_metrics(numbers, self._credit)
        if (kl := self._start.divergence(self._trainer.model, batch)) is not None:
            metrics["kl_to_start"] = kl
        self._log.batch(metrics, numbers)
        self._record(batch)
        if self._sync_check is not None:
            self._sync_check.remember(batch)
        self._barren.check(numbers)

    def _record(self, batch: SampledBatch) -> None:
        """Write the first groups of a batch, with their advantages, to the trajectory log."""
        positions = recorded_positions(batch.numbers, self._config.record_groups)
        if self._config.record_logprobs:
            self._trainer.scores.selected = frozenset(batch.numbers[position].id for position in positions)
        trajectories = batch.on_main(positions)
        if self._trajectories is not None:
            advantages = self._credit.advantages(batch.numbers, group_numbers(batch.numbers))
            self._trajectories.write(trajectories, [advantages[position] for position in positions])

    def _on_scores(self, scored: list[TrainerLogprobs]) -> None:
        """Record the trainer's log-probabilities of the recorded trajectories."""
        if self._trajectories is not None:
            self._trajectories.write_scores(scored)


class BarrenTurns:
    """Counts consecutive unreadable turns, which teach nothing."""

    def __init__(self) -> None:
        self._turns = 0

    def check(self, episodes: Sequence[EpisodeNumbers]) -> None:
        """Count the turns of a step. Raises `UsageError` after many unreadable ones."""
        played = [episode for episode in episodes if not episode.failed]
        turns = sum(len(episode.model_turns) for episode in played)
        errors = sum(episode.counts.get("format_errors", 0) for episode in played)
        why = why_barren(None, errors / turns if turns else None)
        self._turns = self._turns + turns if why else 0
        if self._turns >= _BARREN_TURNS:
            raise UsageError(f"stopped after {self._turns} turns: {why}")


def _adopt(policy: TransformersPolicy | VLLMPolicy, trainer: AgentGRPOTrainer) -> SyncCheck | None:
    """Make the policy sample from the trainer's model; return the check of an engine's weight updates."""
    if isinstance(policy, VLLMPolicy):
        policy.use(engine_of(trainer))
        return check_syncs(trainer, before=policy.abandon)
    policy.use(trainer.accelerator.unwrap_model(trainer.model))
    return None
