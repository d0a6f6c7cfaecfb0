"""Runs training from configuration to report: warm start, evaluation, GRPO with checkpoints, evaluation, curve."""

from __future__ import annotations

import logging
from contextlib import nullcontext

from accelerate import PartialState
from rich.console import Console
from rich.markup import escape

from agentgym.base import yaml12
from agentgym.base.errors import UsageError, require
from agentgym.base.output_files import check_folder, held
from agentgym.core.rewards import Scheme
from agentgym.core.task import TaskSource
from agentgym.rollout import EnvFactory
from agentgym.rollout.fitness import why_barren
from agentgym.trainers import ranks
from agentgym.trainers.config import TINY, TrainConfig, to_dict
from agentgym.trainers.logbook.progress import RunProgress, Stopwatch
from agentgym.trainers.policies import check_model, default_device, load_model
from agentgym.trainers.precision import of_this_machine
from agentgym.trainers.training_report import TrainResult, report
from agentgym.trainers.training_run import HeldOut, TrainingRun
from agentgym.trainers.training_setup import (
    changed_settings,
    check_prompt,
    check_resumed,
    checkpoint_to_resume,
    explained_full_disk,
    has_same_config,
    quiet_libraries,
    settings_text,
)
from agentgym.trainers.trl_config import check_reports, credit_of, env_factory, eval_split_of, probe

_log = logging.getLogger(__name__)


def train(config: TrainConfig, console: Console | None = None) -> TrainResult:
    """Train and return the results; all output goes to `config.folder`.

    Raises:
        UsageError: The configuration, the model or the environment cannot be used.
    """
    quiet_libraries()
    state = ranks.join()
    console = console or Console(quiet=not state.is_main_process)
    watch = Stopwatch()
    requested, config = config, of_this_machine(config, default_device())
    if config.bf16 != requested.bf16 and state.is_main_process:
        _log.warning("this machine only emulates bfloat16, so the run computes in float32 (bf16)")
    if config.use_vllm:
        require("vllm", "vllm")
    factory = env_factory(config)
    source, scheme = probe(factory)
    # All of these raise before anything is written.
    eval_split_of(config, source)
    check_reports(config)
    check_resumed(config, checkpoint_to_resume(config))
    if config.model != TINY:
        check_model(config)
    if state.is_main_process:
        check_folder(config.folder)
    with held(config.folder) if state.is_main_process else nullcontext(), explained_full_disk(config):
        return _train(config, console, factory, source, scheme, watch)


def _train(
    config: TrainConfig, console: Console, factory: EnvFactory, source: TaskSource, scheme: Scheme, watch: Stopwatch
) -> TrainResult:
    """Train in a folder that no other run writes to."""
    state, folder = PartialState(), config.folder
    checkpoint = checkpoint_to_resume(config)
    is_resumed = checkpoint is not None or (config.resume and has_same_config(config))
    changed = changed_settings(config) if checkpoint is not None else {}
    state.wait_for_everyone()
    if state.is_main_process:
        (folder / "config.yaml").write_text(yaml12.dump(to_dict(config)), encoding="utf-8")
    with RunProgress(console) as progress:
        spread = f" in {state.num_processes} processes" if state.num_processes > 1 else ""
        progress.say(f"[bold]{config.env}[/] with {config.model}, credit {config.credit.value}{spread} → {folder}")
        if changed:
            progress.say(f"[yellow]The run continues with changed settings:[/] {escape(settings_text(changed))}")
        model, tokenizer = load_model(config, progress)
        if checkpoint is None:
            check_prompt(config, factory, source, model, tokenizer)
        run = TrainingRun(config, factory, source, credit_of(config, scheme), model, tokenizer, progress)
        held_out = HeldOut(config, factory, source, progress)
        before = held_out.evaluate(run.evaluation_policy(), "before", resume=is_resumed)
        if before.sampled_tokens == 0:
            raise UsageError(f"before training, {why_barren(before.sampled_tokens, None)} (--context)")
        run.train(checkpoint)
        after = held_out.evaluate(run.evaluation_policy(), "after")
    result = TrainResult(before, after, folder, watch.lap() / 60)
    if state.is_main_process:
        report(config, result, console)
    return result
