"""The parts of an asynchronous run that sample and learn; stands in for `training_run.TrainingRun`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PrinterCallback

from agentgym.base.errors import UsageError
from agentgym.core.policy import Policy
from agentgym.core.task import TaskSource
from agentgym.eval.evaluation import Summary
from agentgym.rollout import EnvFactory
from agentgym.trainers import ranks
from agentgym.trainers.asynchronous.admission import Admission, row_at
from agentgym.trainers.asynchronous.playing import GroupPlayer, Played
from agentgym.trainers.asynchronous.server import OwnServer, server_settings
from agentgym.trainers.asynchronous.settings import async_config, token_budget
from agentgym.trainers.asynchronous.steps import samples_of
from agentgym.trainers.asynchronous.trainer import AgentAsyncTrainer, StepSettings
from agentgym.trainers.asynchronous.worker import EngineWorker
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import Credit
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.logbook.card import write_card
from agentgym.trainers.logbook.metrics import batch_metrics
from agentgym.trainers.logbook.phases import PhaseClock
from agentgym.trainers.logbook.progress import RunProgress
from agentgym.trainers.logbook.records import MarkComplete, TrajectoryLog
from agentgym.trainers.logbook.run_log import RunLog
from agentgym.trainers.logbook.speed import speed_of
from agentgym.trainers.policies import codec_of, describe_training, servable_source
from agentgym.trainers.run_folder import PlannedRun, start_of, step_of
from agentgym.trainers.training_run import BarrenTurns
from agentgym.trainers.transformers_policy import Sampling
from agentgym.trainers.trl_config import failures_of, limits_of, peft_config
from agentgym.trainers.vllm.server_policy import Adapters, VLLMServerPolicy
from agentgym.trainers.vllm.servers import refuse_raw_logprobs, served_by

GROUPS = "groups.json"
"""File of a checkpoint with the groups of the run (`EngineWorker.state`)."""


_PATIENCE_S = 900.0
"""How long a turn waits for a server to come up again, in seconds."""


class AsyncRun:
    """The reinforcement learning part of an asynchronous run. Close it.

    Raises:
        UsageError: The model or the servers do not fit.
        InfrastructureError: The run's own server does not start.
    """

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
        self._codec = codec_of(config, model, tokenizer)
        self._path = str(start_of(config.folder)) if config.is_warm_started else servable_source(config.model)
        self._server: OwnServer | None = None
        # Servers that outlive a run keep its adapters, so each start of a run has names of its own.
        name = ranks.from_main(f"policy-{secrets.token_hex(4)}")
        self._adapters = Adapters(name, (config.folder / "adapters").resolve())
        try:
            self._begin(model.config, tokenizer, source)
        except BaseException:
            self.close()
            raise

    def _begin(self, model_config: Any, tokenizer: Any, source: TaskSource) -> None:
        config = self._config
        if not config.lora_rank and not torch.cuda.is_available():
            raise UsageError("asynchronous training: all weights reach servers over NCCL, between GPUs; set lora_rank")
        is_main = PartialState().is_main_process
        own = [self._serve(model_config)] if is_main and not config.servers else None
        self._urls = list(config.servers) or ranks.from_main(own)
        served = served_by(self._urls, self._path)
        refuse_raw_logprobs(served.url, served.model, config.temperature)
        self._model = served.model
        self._worker = self._make_worker(source) if is_main else None
        speed = speed_of(config, model_config)
        self._log = RunLog(config, self._progress, PhaseClock(), lambda: 0.0, speed)  # servers sample at any time
        self._trajectories: TrajectoryLog | None = None
        self._barren, self._before, self._is_trained = BarrenTurns(), None, False
        self._trainer = AgentAsyncTrainer(
            model=self._path,
            args=async_config(config, urls=self._urls, use_cpu=not torch.cuda.is_available()),
            processing_class=tokenizer,
            peft_config=peft_config(config),
            urls=self._urls,
            adapters=self._adapters if config.lora_rank else None,
            rollout_worker=self._worker,
            settings=StepSettings(
                groups=config.groups,
                refill_rounds=config.refill_rounds,
                max_staleness=config.max_staleness,
                loss=config.loss,
                context=config.context,
                budget=token_budget(config),
            ),
            on_step=self._on_step,
            callbacks=[MarkComplete(self._complete)],
        )
        self._progress.say(f"packed rows are computed with {self._trainer.attention}")
        # Runs before the callbacks that log elsewhere, so that they see what it adds.
        self._trainer.callback_handler.callbacks.insert(0, self._log)
        self._trainer.remove_callback(PrinterCallback)  # RunProgress shows the progress

    def _serve(self, model_config: Any) -> str:
        """Start a server of the run's own; return its address."""
        config = self._config
        self._progress("starting the vLLM server", 0, 1)
        settings = server_settings(config, model_config)
        self._server = OwnServer(self._path, settings, config.folder / "server.log")
        self._server.wait()
        self._progress("starting the vLLM server", 1, 1)
        return self._server.url

    def _make_worker(self, source: TaskSource) -> EngineWorker:
        config = self._config
        player = GroupPlayer(
            self._factory,
            self._policy(self._adapters if config.lora_rank else None),
            self._credit,
            config.group_size,
            limits_of(config),
            config.placed,
            failures_of(config),
        )
        return EngineWorker(
            player,
            partial(row_at, size=source.size("train"), seed=config.seed),
            Admission(config.groups, config.max_staleness),
            samples_of=partial(samples_of, max_staleness=config.max_staleness),
        )

    def _policy(self, adapters: Adapters | None) -> VLLMServerPolicy:
        config = self._config
        return VLLMServerPolicy(
            self._codec,
            self._urls,
            model=self._model,
            end_ids=sorted(self._codec.end_ids),
            context=config.context,
            name=config.model,
            sampling=Sampling(config.temperature, seed=config.seed),
            patience_s=_PATIENCE_S,
            adapters=adapters,
        )

    def close(self) -> None:
        """End the server, if it is the run's own."""
        if self._server is not None:
            self._server.close()

    def evaluation_policy(self) -> Policy:
        """Return a policy with the current weights."""
        policy = self._policy(self._adapters if self._is_trained and self._config.lora_rank else None)
        policy.updated(self._trainer.step)
        return policy

    def train(self, run: PlannedRun, before: Summary) -> None:
        """Train, starting from the run's checkpoint if there is one, and save the trained model.

        Args:
            run: The run.
            before: The evaluation before training, for the model cards of checkpoints.
        """
        self._before, checkpoint = before, run.checkpoint
        if self._worker is not None:
            self._log.open(resume_at=run.step if checkpoint else None)
            self._trajectories = TrajectoryLog(self._config.folder, self._credit.mode, resume_at=run.step)
            self._progress("training", run.step, self._config.steps)
            if checkpoint is not None:
                self._worker.restore(json.loads((checkpoint / GROUPS).read_text(encoding="utf-8")))
        self._trainer.begin_at(run.step)
        try:
            if checkpoint is None:
                self._trainer.train()
            else:
                self._trainer.resume(checkpoint)
        except torch.OutOfMemoryError as error:
            raise UsageError(
                f"out of memory: {str(error).splitlines()[0]} Lower micro_batch or context, or set "
                "gradient_checkpointing: true."
            ) from error
        finally:
            self._log.close()
        self._is_trained = True
        final = self._config.folder / "model"
        self._trainer.save_model(str(final))
        if self._trainer.is_world_process_zero():
            self._describe(final, self._config.steps)

    def _complete(self, checkpoint: Path) -> None:
        """Write what a checkpoint has besides TRL's files."""
        self._describe(checkpoint, step_of(checkpoint))
        if self._worker is not None:
            (checkpoint / GROUPS).write_text(json.dumps(self._worker.state), encoding="utf-8")

    def _describe(self, folder: Path, step: int) -> None:
        describe_training(folder, self._factory.env_id, self._factory.kwargs)
        write_card(folder, self._config, step, {"before training": self._before})

    def _on_step(self, groups: Sequence[Played], metrics: dict[str, float]) -> None:
        """Log the groups of a step."""
        numbers = [EpisodeNumbers.of(t) for played in groups for t in played.group.trajectories]
        self._log.batch({**batch_metrics(numbers, self._credit), **metrics}, numbers)
        if self._trajectories is not None:
            step, kept = self._trainer.step, groups[: self._config.record_groups]
            # The record says when they were learned from: a resumed run removes what it repeats.
            trajectories = [replace(t, training_step=step) for played in kept for t in played.group.trajectories]
            self._trajectories.write(trajectories, [row for played in kept for row in played.advantages])
        self._barren.check(numbers)
