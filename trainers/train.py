"""Runs training from configuration to report: warm start, evaluation, GRPO with checkpoints, evaluation, curve."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import PartialState
from rich.console import Console
from rich.markup import escape

from agentgym.base.errors import UsageError
from agentgym.base.output_files import check_folder, held
from agentgym.core.rewards import Scheme
from agentgym.core.task import TaskSource
from agentgym.eval.results.provenance import recorded
from agentgym.rollout import EnvFactory
from agentgym.rollout.fitness import why_barren
from agentgym.trainers import ranks
from agentgym.trainers.config import TINY, TrainConfig
from agentgym.trainers.estimate import prepared
from agentgym.trainers.held_out import HeldOut
from agentgym.trainers.logbook.progress import RunProgress, Stopwatch
from agentgym.trainers.policies import check_model, default_device, load_model, state_of_model, warm_start_of
from agentgym.trainers.precision import of_this_machine
from agentgym.trainers.requirements import check_installed
from agentgym.trainers.run_folder import (
    SUMMARY,
    PlannedRun,
    begin,
    changes_text,
    check_model_state,
    new_run,
    resumed_run,
)
from agentgym.trainers.training_report import TrainResult, report
from agentgym.trainers.training_run import TrainingRun
from agentgym.trainers.training_setup import check_prompt, explained_full_disk, quiet_libraries
from agentgym.trainers.trl_config import check_reports, check_trl, credit_of, env_factory, eval_split_of, probe
from agentgym.trainers.vllm.engine import check_engine_arguments

if TYPE_CHECKING:
    from agentgym.trainers.asynchronous.run import AsyncRun

_log = logging.getLogger(__name__)


def train(config: TrainConfig, console: Console | None = None) -> TrainResult:
    """Train and return the results; all output goes to `config.folder`.

    With `config.resume`, the run in that folder continues. Settings that differ from those of the run change from then
    on, which `run.json` records with the step; those in `run_folder.KEPT` may not differ.

    Raises:
        UsageError: The configuration, the model or the environment cannot be used.
    """
    check_installed(config)
    quiet_libraries()
    state = ranks.join(config.rank_timeout_s)
    console = console or Console(quiet=not state.is_main_process)
    watch = Stopwatch()
    with RunProgress(console, report=ranks.report) as progress:
        progress("preparing the environment", 0, 1)
        # All of these raise before anything is written.
        run = resumed_run(config) if config.resume else new_run(config)
        config = of_this_machine(config, default_device())
        if config.bf16 != run.requested.bf16 and state.is_main_process:
            _log.warning("this machine only emulates bfloat16, so the run computes in float32 (bf16)")
        factory = env_factory(config)
        source, scheme = probe(factory)
        eval_split_of(config, source)
        check_reports(config)
        check_trl(config)
        check_engine_arguments(config)
        model_state = _model_state(config)
        progress("preparing the environment", 1, 1)
        if state.is_main_process:
            check_folder(config.folder)
        with held(config.folder) if state.is_main_process else nullcontext(), explained_full_disk(config):
            result = _train(replace(run, config=config), model_state, progress, factory, source, scheme, watch)
    ranks.leave()
    return result


def warm_start(config: TrainConfig, console: Console | None = None) -> Path:
    """Make the model that a run with these settings begins with, unless it is cached; return its folder.

    Raises:
        UsageError: The settings have no warm start, or it cannot be made.
    """
    if not config.is_warm_started:
        raise UsageError("these settings have no warm start; set warm_start_steps, e.g. to 100")
    check_installed(config)
    quiet_libraries()
    state = ranks.join(config.rank_timeout_s)
    with RunProgress(console or Console(quiet=not state.is_main_process), report=ranks.report) as progress:
        config = of_this_machine(config, default_device())
        load_model(config, progress)
    ranks.leave()
    return warm_start_of(config).folder


def _model_state(config: TrainConfig) -> str | None:
    """Return the state of the pretrained model that the run begins with; `None` if its folder keeps the model.

    Raises:
        UsageError: The model cannot be loaded, or has changed since the run began.
    """
    if config.model == TINY:
        return None
    check_model(config)
    if config.is_warm_started:
        return None
    state = state_of_model(config)
    if config.resume:
        check_model_state(config.folder, state)
    return state


def _train(
    run: PlannedRun,
    model_state: str | None,
    progress: RunProgress,
    factory: EnvFactory,
    source: TaskSource,
    scheme: Scheme,
    watch: Stopwatch,
) -> TrainResult:
    """Train in a folder that no other run writes to."""
    state, config, folder = PartialState(), run.config, run.config.folder
    state.wait_for_everyone()
    spread = f" in {state.num_processes} processes" if state.num_processes > 1 else ""
    progress.say(f"[bold]{config.env}[/] with {config.model}, credit {config.credit.value}{spread} → {folder}")
    if run.changes:
        changes = escape(changes_text(run.changes))
        progress.say(f"[yellow]The run continues with other settings from step {run.step + 1}:[/] {changes}")
    if state.is_main_process:
        run = prepared(run, factory, progress)
        config = run.config
    model, tokenizer = load_model(config, progress, run_folder=folder)
    if run.checkpoint is None:
        check_prompt(config, factory, source, model, tokenizer)
    if state.is_main_process:
        (folder / SUMMARY).unlink(missing_ok=True)  # marks a finished run
        if not config.resume:
            begin(folder, run.requested)
    facts = {"seed": config.seed, "from_step": run.step, "changes": run.changes, "model_state": model_state}
    with recorded(folder, **facts) if state.is_main_process else nullcontext():
        credit, held_out = credit_of(config, scheme), HeldOut(config, factory, source, progress)
        with _training(config, factory, source, credit, model, tokenizer, progress) as training:
            before = held_out.evaluate(training.evaluation_policy(), "before", resume=config.resume)
            if before.sampled_tokens == 0:
                raise UsageError(f"before training, {why_barren(before.sampled_tokens, None)} (--context)")
            training.train(run, before)
            after = held_out.evaluate(training.evaluation_policy(), "after")
        result = TrainResult(before, after, folder, watch.lap() / 60)
        if state.is_main_process:
            report(config, result, progress.console)
    return result


@contextmanager
def _training(config: TrainConfig, *parts: Any) -> Iterator[TrainingRun | AsyncRun]:
    """Yield the part of the run that samples and learns, and end what it has started."""
    if not config.async_training:
        yield TrainingRun(config, *parts)
        return
    from agentgym.trainers.asynchronous.run import AsyncRun

    run = AsyncRun(config, *parts)
    try:
        yield run
    finally:
        run.close()
