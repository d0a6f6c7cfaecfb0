"""The parts of a run that sample and learn: evaluation on held-out tasks, and reinforcement learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from transformers import PrinterCallback

from agentgym.base.errors import UsageError
from agentgym.core.policy import Policy
from agentgym.core.task import TaskSource
from agentgym.eval.summary import Summary
from agentgym.rollout import EnvFactory
from agentgym.rollout.fitness import why_barren
from agentgym.trainers import ranks
from agentgym.trainers.ahead import AheadRollouts, is_carried
from agentgym.trainers.batches import BatchRollouts, TaskRow, task_rows
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.grpo import AgentGRPOTrainer
from agentgym.trainers.kl import StartingPolicy
from agentgym.trainers.logbook.card import write_card
from agentgym.trainers.logbook.metrics import batch_metrics
from agentgym.trainers.logbook.phases import PhaseClock
from agentgym.trainers.logbook.progress import RunProgress
from agentgym.trainers.logbook.records import MarkComplete, TrajectoryLog, keep_size, recorded_positions, recorded_size
from agentgym.trainers.logbook.run_log import RunLog
from agentgym.trainers.logbook.speed import speed_of
from agentgym.trainers.policies import describe_training, policy_of
from agentgym.trainers.run_folder import PlannedRun, last_checkpoint, step_of
from agentgym.trainers.sampled_batch import SampledBatch
from agentgym.trainers.scores import TrainerLogprobs
from agentgym.trainers.staleness import staleness_metrics
from agentgym.trainers.transformers_policy import TransformersPolicy
from agentgym.trainers.trl_config import (
    failures_of,
    grpo_config,
    limits_of,
    peft_config,
    refuse_sharded,
)
from agentgym.trainers.trl_seam import engine_of, push_copies, sync_engine
from agentgym.trainers.vllm.engine import trl_engine
from agentgym.trainers.vllm.memory import cache_text, cache_tokens, with_memory
from agentgym.trainers.vllm.policy import VLLMPolicy
from agentgym.trainers.vllm.sync import SyncCheck, check_syncs
from agentgym.trainers.vllm.weights import engine_weights

_BARREN_TURNS = 100
"""A run stops after this many consecutive turns in steps whose turns were all unreadable."""


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
        config = with_memory(config, model.config)
        self._config, self._factory, self._credit, self._progress = config, factory, credit, progress
        self._start = (
            StartingPolicy(model, use_copy=not config.lora_rank, temperature=config.temperature)
            if config.track_kl
            else None
        )
        self._tokenizer = tokenizer
        arguments = grpo_config(config, world_size=ranks.world_size(), use_cpu=not torch.cuda.is_available())
        # The policy samples from the weights that are being trained; `_adopt` connects them once the trainer has
        # wrapped the model.
        self._policy = policy_of(config, model, tokenizer, slots=config.at_once)
        rows = task_rows(source, config.steps * config.groups, config.seed)
        self._rollouts = _rollouts(config, self._policy, factory, source, credit, rows)
        clock = PhaseClock()
        self._log = RunLog(config, progress, clock, lambda: self._rollouts.sampler_s, speed_of(config, model.config))
        self._trajectories: TrajectoryLog | None = None
        self._before: Summary | None = None
        self._barren = BarrenTurns()
        with trl_engine(config, model, tokenizer):
            self._trainer = AgentGRPOTrainer(
                model=model,
                args=arguments,
                processing_class=tokenizer,
                train_dataset=rows,
                peft_config=peft_config(config),
                rollouts=self._rollouts,
                credit=credit,
                max_staleness=config.max_staleness,
                on_batch=self._on_batch,
                on_scores=self._on_scores if config.record_logprobs else None,
                clock=clock,
                callbacks=[MarkComplete(lambda folder: self._describe(folder, step_of(folder)), self._keep)],
            )
        # Runs before the callbacks that log elsewhere, so that they see what it adds.
        self._trainer.callback_handler.callbacks.insert(0, self._log)
        self._trainer.remove_callback(PrinterCallback)  # RunProgress shows the progress
        refuse_sharded(config, self._trainer.accelerator)
        self._sync_check = _adopt(self._policy, self._trainer)
        if config.use_vllm and (tokens := cache_tokens(engine_of(self._trainer))) is not None:
            at_once = min(config.max_in_flight, config.batch // ranks.world_size())
            share = config.vllm_memory if torch.cuda.is_available() else None
            progress.say(cache_text(tokens, config.context, at_once, share))

    def evaluation_policy(self) -> Policy:
        """Return a policy with the current weights. All processes must call this."""
        if isinstance(self._policy, VLLMPolicy):
            if self._trainer.updates:  # before them, the engine has the weights that it was made with
                sync_engine(self._trainer)
            return self._policy
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        return policy_of(self._config, model, self._tokenizer, slots=min(self._config.max_in_flight, 128))

    def train(self, run: PlannedRun, before: Summary | None) -> None:
        """Train, starting from the run's checkpoint if there is one, and save the trained model.

        Args:
            run: The run.
            before: The evaluation before training, if there was one, for the model cards of checkpoints.
        """
        self._before, checkpoint = before, run.checkpoint
        if PartialState().is_main_process:
            self._log.open(resume_at=run.step if checkpoint else None)
            size = recorded_size(checkpoint)
            self._trajectories = TrajectoryLog(self._config.folder, self._credit.mode, resume_at=run.step, size=size)
            self._progress("training", run.step, self._config.steps)
        try:
            if checkpoint is not None and isinstance(self._rollouts, AheadRollouts):
                self._rollouts.resume(checkpoint)
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
        if self._trainer.is_fsdp_enabled:  # its checkpoints may be in parts, of which the trainer saves no model
            self._trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
        final = self._config.folder / "model"
        self._trainer.save_model(str(final))
        if self._trainer.is_world_process_zero():
            self._describe(final, self._config.steps)

    def _keep(self, checkpoint: Path) -> None:
        """Add to a checkpoint what this process needs to continue from it."""
        if isinstance(self._rollouts, AheadRollouts):
            self._rollouts.save(checkpoint)
        if self._trajectories is not None:
            keep_size(checkpoint, self._trajectories)

    def _describe(self, folder: Path, step: int) -> None:
        """Record the run's environment in a model's folder, for evaluations, and write its card."""
        describe_training(folder, self._factory.env_id, self._factory.kwargs)
        write_card(folder, self._config, step, {"before training": self._before})

    def _on_batch(self, batch: SampledBatch, step: int) -> None:
        """Log a batch as it was sampled, before any group was replaced."""
        numbers = batch.numbers
        metrics = batch_metrics(numbers, self._credit)
        metrics |= staleness_metrics(numbers, step, self._config.max_staleness)
        if self._start is not None and (kl := self._start.divergence(self._trainer.model, batch)) is not None:
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


def _rollouts(
    config: TrainConfig,
    policy: TransformersPolicy | VLLMPolicy,
    factory: EnvFactory,
    source: TaskSource,
    credit: Credit,
    rows: Dataset,
) -> BatchRollouts | AheadRollouts:
    """Return the rollouts of a run; `rows` has all of its groups.

    Raises:
        UsageError: A run that ran ahead resumes with `refill_rounds`.
    """
    shared = {"workers": config.placed, "failures": failures_of(config)}
    checkpoint = last_checkpoint(config.folder) if config.resume else None
    if config.ahead or (checkpoint is not None and is_carried(checkpoint)):
        if config.refill_rounds:
            raise UsageError("the checkpoint holds groups of several steps (ahead): resume with refill_rounds: 0")
        sizes = {"groups": config.groups, "group_size": config.group_size, "ahead": config.ahead}
        place = PartialState().process_index, ranks.world_size()
        groups = [TaskRow.of(row) for row in rows.to_list()]
        return AheadRollouts(policy, factory, source, limits_of(config), groups, **sizes, place=place, **shared)
    more = {"refill_rounds": config.refill_rounds, "seed": config.seed}
    return BatchRollouts(policy, factory, source, credit, limits_of(config), **more, **shared)


def _adopt(policy: TransformersPolicy | VLLMPolicy, trainer: AgentGRPOTrainer) -> SyncCheck | None:
    """Make the policy sample from the trainer's weights; return the check of an engine's weight updates."""
    if isinstance(policy, VLLMPolicy):
        policy.use(engine_of(trainer))
        push_copies(trainer, engine_weights)
        return check_syncs(trainer, before=policy.abandon)
    policy.use(trainer.accelerator.unwrap_model(trainer.model))
    return None
