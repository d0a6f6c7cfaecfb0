"""Runs training from configuration to report: warm start, evaluation, GRPO with checkpoints, evaluation, curve."""

from __future__ import annotations

import errno
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets.utils import logging as datasets_logging
from rich.console import Console
from rich.markup import escape
from transformers import PrinterCallback
from transformers.utils import logging as transformers_logging

from agentgym import yaml12
from agentgym.errors import AgentGymError, UsageError, require
from agentgym.evaluation import Summary, evaluate
from agentgym.fitness import check_prompt_fits, why_barren
from agentgym.foreign.errors import describe
from agentgym.outputs import check_folder, held
from agentgym.policy import Policy
from agentgym.rewards import Scheme
from agentgym.rollout import EnvFactory
from agentgym.summary import print_errors
from agentgym.task import TaskSource, iterate
from agentgym.terminal.printing import print_trajectory
from agentgym.trainers import ranks
from agentgym.trainers.batches import BatchRollouts, task_rows
from agentgym.trainers.config import TINY, TrainConfig, load_config, to_dict
from agentgym.trainers.grpo import AgentGRPOTrainer
from agentgym.trainers.kl import StartingPolicy
from agentgym.trainers.logbook.metrics import batch_metrics
from agentgym.trainers.logbook.progress import RunProgress, Stopwatch
from agentgym.trainers.logbook.records import MarkComplete, last_checkpoint, read_metrics
from agentgym.trainers.logbook.report import draw_curve
from agentgym.trainers.logbook.run_log import RunLog
from agentgym.trainers.logbook.trajectory_log import TrajectoryLog, kept_places
from agentgym.trainers.policies import (
    check_model,
    codec_of,
    default_device,
    describe_training,
    load_model,
    policy_of,
    positions_of,
)
from agentgym.trainers.precision import of_this_machine
from agentgym.trainers.scores import Scored
from agentgym.trainers.transformers_policy import TransformersPolicy
from agentgym.trainers.trl_config import (
    check_reports,
    credit_of,
    env_factory,
    eval_split_of,
    failures_of,
    grpo_config,
    limits_of,
    optimizer_steps,
    peft_config,
    probe,
    refuse_sharded,
)
from agentgym.trainers.vllm.engine import trl_engine
from agentgym.trainers.vllm.policy import VLLMPolicy
from agentgym.trainers.vllm.sync import SyncCheck, check_syncs
from agentgym.trajectory import Trajectory, read_jsonl, write_jsonl

_log = logging.getLogger(__name__)

_BARREN_TURNS = 100
"""So many turns in a row of which none could be read end a run: a policy that writes one call in twenty would go on."""


_MAY_CHANGE = (
    *("steps", "save_every", "keep_checkpoints", "record_groups", "plateau_warning"),
    *("workers", "ray", "max_in_flight", "outage", "micro_batch", "gradient_checkpointing", "vllm_memory"),
    *("generation_timeout_s", "reset_timeout_s", "step_timeout_s", "tool_timeout_s", "episode_timeout_s"),
)
"""Settings that a resumed run may change: its length, its limits and where it runs.

Any other would put a new tokenizer, model, task or loss under the weights of the checkpoint.
"""


@dataclass(frozen=True)
class TrainResult:
    """The results of a run on held-out tasks."""

    before: Summary
    after: Summary
    folder: Path
    minutes: float


def train(config: TrainConfig, console: Console | None = None) -> TrainResult:
    """Train and return the results; all output goes to `config.folder`.

    Raises:
        UsageError: The configuration, the model or the environment cannot be used.
    """
    _quiet()
    place = ranks.join()
    console = console or Console(quiet=not place.is_main_process)
    watch = Stopwatch()
    wanted, config = config, of_this_machine(config, default_device())
    if config.bf16 != wanted.bf16 and place.is_main_process:
        _log.warning("this machine only emulates bfloat16, so the run computes in float32 (bf16)")
    if config.use_vllm:
        require("vllm", "vllm")
    factory = env_factory(config)
    source, scheme = probe(factory)
    eval_split_of(config, source)  # raises before anything is written
    check_reports(config)  # so does this
    _check_resumed(config, _checkpoint(config))  # and this
    if config.model != TINY:
        check_model(config)  # and this
    if place.is_main_process:
        check_folder(config.folder)
    with held(config.folder) if place.is_main_process else nullcontext(), _full_disk_told(config):
        return _train(config, console, factory, source, scheme, watch)


def _train(
    config: TrainConfig, console: Console, factory: EnvFactory, source: TaskSource, scheme: Scheme, watch: Stopwatch
) -> TrainResult:
    """Train in a folder that no other run writes to."""
    place, folder = PartialState(), config.folder
    checkpoint = _checkpoint(config)
    begun = checkpoint is not None or (config.resume and _same_config(config))
    changed = _changed(config) if checkpoint is not None else {}
    place.wait_for_everyone()
    if place.is_main_process:
        (folder / "config.yaml").write_text(yaml12.dump(to_dict(config)), encoding="utf-8")
    with RunProgress(console) as progress:
        spread = f" in {place.num_processes} processes" if place.num_processes > 1 else ""
        progress.say(f"[bold]{config.env}[/] with {config.model}, credit {config.credit.value}{spread} → {folder}")
        if changed:
            progress.say(f"[yellow]The run goes on with other settings than before:[/] {escape(_shown(changed))}")
        model, tokenizer = load_model(config, progress)
        if checkpoint is None:
            _check_prompt(config, factory, source, model, tokenizer)
        run = _Run(config, factory, source, credit_of(config, scheme), model, tokenizer, progress)
        held_out = _HeldOut(config, factory, source, progress)
        before = held_out.run(run.evaluation_policy(), "before", resume=begun)
        if before.sampled_tokens == 0:
            raise UsageError(f"before training, {why_barren(before.sampled_tokens, None)} (--context)")
        run.go(checkpoint)
        after = held_out.run(run.evaluation_policy(), "after")
    result = TrainResult(before, after, folder, watch.lap() / 60)
    if place.is_main_process:
        _report(config, result, console)
    return result


def _check_prompt(config: TrainConfig, factory: EnvFactory, source: TaskSource, model: Any, tokenizer: Any) -> None:
    """Raise `UsageError` if the first training task's prompt does not fit into the context."""
    allowed = positions_of(model.config) or config.context
    codec = codec_of(config, model, tokenizer)
    advice = f"Raise --context (the model allows {allowed}), or give the environment arguments with a shorter prompt."
    check_prompt_fits(codec, min(config.context, allowed), factory, source.get("train", 0), advice)


class _HeldOut:
    """Evaluates on held-out tasks before and after training, with the sampling of training."""

    def __init__(self, config: TrainConfig, factory: EnvFactory, source: TaskSource, progress: RunProgress):
        self._config, self._factory, self._progress = config, factory, progress
        self._tasks = list(iterate(source, eval_split_of(config, source), limit=config.eval_tasks))

    def run(self, policy: Policy, when: str, *, resume: bool = False) -> Summary:
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


class _Run:
    """The reinforcement learning part of a run."""

    def __init__(
        self,
        config: TrainConfig,
        factory: EnvFactory,
        source: TaskSource,
        credit: Any,
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
        # The policy samples from the weights that are being trained; `_adopt` passes them on once the trainer has
        # wrapped them.
        self._policy = policy_of(config, model, tokenizer, slots=min(config.max_in_flight, config.batch))
        self._rollouts = BatchRollouts(
            self._policy,
            factory,
            source,
            credit,
            limits_of(config),
            refill_rounds=config.refill_rounds,
            seed=config.seed,
            updates_per_step=optimizer_steps(config),
            workers=config.placed,
            failures=failures_of(config),
        )
        self._log = RunLog(config, progress)
        self._trajectories: TrajectoryLog | None = None
        self._barren = 0
        """Turns in a row that could not be read."""
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
                callbacks=[MarkComplete(self._describe)],
            )
        # Runs before the callbacks that log elsewhere, so that they see what it adds.
        self._trainer.callback_handler.callbacks.insert(0, self._log)
        self._trainer.remove_callback(PrinterCallback)  # RunProgress shows the progress
        refuse_sharded(config, self._trainer.accelerator)
        self._sync_check = _adopt(self._policy, self._trainer)

    def evaluation_policy(self) -> Policy:
        """Return a policy with the current weights. All processes must call this."""
        if isinstance(self._policy, VLLMPolicy):
            self._trainer.vllm_generation.sync_weights()
            return self._policy
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        return policy_of(self._config, model, self._tokenizer, slots=min(self._config.max_in_flight, 128))

    def go(self, checkpoint: Path | None) -> None:
        """Train, starting from the checkpoint if there is one, and save the trained model."""
        done = steps_in(checkpoint, self._config)
        if PartialState().is_main_process:
            self._log.open(resume_at=done if checkpoint else None)
            keep = self._config.record_groups
            self._trajectories = TrajectoryLog(self._config.folder, keep, self._credit, resume_at=done)
        try:
            self._trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
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
            self._describe(final)

    def _describe(self, folder: Path) -> None:
        """Write down what the model in a folder is trained in, so that it is evaluated in the same."""
        describe_training(folder, self._factory.env_id, self._factory.kwargs)

    def _on_batch(self, sampled: list[Trajectory], updates: int) -> None:
        """Log the metrics of a batch as it was sampled, before any group was replaced."""
        metrics = batch_metrics(sampled, self._credit)
        if (kl := self._start.divergence(self._trainer.model, sampled)) is not None:
            metrics["kl_to_start"] = kl
        self._log.batch(metrics, sampled)
        if self._config.record_logprobs:
            kept = kept_places(sampled, self._config.record_groups)
            self._trainer.scores.wanted = frozenset(sampled[place].id for place in kept)
        if self._trajectories is not None:
            self._trajectories.write(sampled)
        if self._sync_check is not None:
            self._sync_check.remember(sampled)
        self._stop_if_barren(sampled)

    def _on_scores(self, scored: list[Scored]) -> None:
        """Keep what the trainer makes of the tokens of trajectories that are kept."""
        if self._trajectories is not None:
            self._trajectories.write_scores(scored)

    def _stop_if_barren(self, trajectories: list[Trajectory]) -> None:
        """Raise `UsageError` once many turns in a row could not be read: they teach nothing."""
        played = [t for t in trajectories if not t.failed]
        turns = sum(len(t.model_turns) for t in played)
        errors = sum(t.counts.get("format_errors", 0) for t in played)
        why = why_barren(None, errors / turns if turns else None)
        self._barren = self._barren + turns if why else 0
        if self._barren >= _BARREN_TURNS:
            raise UsageError(f"stopped after {self._barren} turns: {why}")


def _adopt(policy: TransformersPolicy | VLLMPolicy, trainer: AgentGRPOTrainer) -> SyncCheck | None:
    """Make the policy sample from the model that the trainer has prepared; return what checks an engine's updates."""
    if isinstance(policy, VLLMPolicy):
        policy.use(trainer.vllm_generation.llm.llm_engine)
        return check_syncs(trainer, trainer.vllm_generation.llm.llm_engine, before=policy.abandon)
    policy.use(trainer.accelerator.unwrap_model(trainer.model))
    return None


@contextmanager
def _full_disk_told(config: TrainConfig) -> Iterator[None]:
    """Raise `UsageError` if a disk is full, whichever library finds that out, and say how to go on."""
    try:
        yield
    except Exception as error:
        if isinstance(error, AgentGymError) or not is_full_disk(error):
            raise
        raise UsageError(
            f"cannot write to {str(config.folder)!r}: no space left on the device. Make room. {how_to_go_on(config)}"
        ) from error


def is_full_disk(error: BaseException) -> bool:
    """Whether an error is that of a full disk. Rust's and torch's writers say so by their texts only."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(words in str(error) for words in ("No space left on device", "PytorchStreamWriter failed writing"))


def steps_in(checkpoint: Path | None, config: TrainConfig) -> int:
    """Return how many training steps a checkpoint has behind it; 0 without one."""
    return 0 if checkpoint is None else int(checkpoint.name.rpartition("-")[2]) // optimizer_steps(config)


def how_to_go_on(config: TrainConfig) -> str | None:
    """Return what to tell whoever interrupted a run; `None` if it has left nothing."""
    if not (config.folder / "config.yaml").is_file():
        return None
    checkpoint = last_checkpoint(config.folder)
    if checkpoint is None:
        return (
            f"The run in {config.folder} has no checkpoint yet; the same command with --resume starts its training "
            "again and keeps what is evaluated."
        )
    done = f"step {steps_in(checkpoint, config)} of {config.steps}"
    return f"The run in {config.folder} has a checkpoint of {done}; the same command with --resume goes on from there."


def _checkpoint(config: TrainConfig) -> Path | None:
    """Return the checkpoint to continue from. Raises `UsageError` if it is missing or a run would be overwritten."""
    found = last_checkpoint(config.folder)
    if config.resume:
        if found is None and (config.folder / "config.yaml").is_file():
            return None
        if found is None:
            raise UsageError(f"there is nothing to resume in {str(config.folder)!r}")
        return found
    if found is not None:
        raise UsageError(
            f"{str(config.folder)!r} already holds a run; continue it with --resume, or choose another --output-dir"
        )
    return None


def _check_resumed(config: TrainConfig, checkpoint: Path | None) -> None:
    """Raise `UsageError` if a checkpoint cannot be continued with these settings."""
    if checkpoint is None:
        return
    if fixed := {name: values for name, values in _changed(config).items() if name not in _MAY_CHANGE}:
        raise UsageError(
            f"cannot resume {str(config.folder)!r} with other settings: {_shown(fixed)}; "
            f"resume with --recipe {config.folder / 'config.yaml'}, or choose another --output-dir"
        )
    if (done := steps_in(checkpoint, config)) > config.steps:
        raise UsageError(f"{str(config.folder)!r} has a checkpoint of step {done}, beyond --steps {config.steps}")


def _changed(config: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from those of the run's `config.yaml`: before and now."""
    before, now = to_dict(load_config(str(config.folder / "config.yaml"))), to_dict(config)
    names = now.keys() - {"resume", "output_dir"}
    return {name: (before[name], now[name]) for name in sorted(names) if before[name] != now[name]}


def _shown(changed: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{name} {before!r} is now {now!r}" for name, (before, now) in changed.items())


def _same_config(config: TrainConfig) -> bool:
    """Whether a run that has no checkpoint yet began with this configuration, so that it starts from the same model."""
    try:
        return replace(load_config(str(config.folder / "config.yaml")), resume=config.resume) == config
    except UsageError:
        return False


def _report(config: TrainConfig, result: TrainResult, console: Console) -> None:
    """Write the report and print a summary."""
    folder, before, after = result.folder, result.before, result.after
    summary = {"before": before.to_dict(), "after": after.to_dict(), "minutes": result.minutes}
    (folder / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    samples = list(read_jsonl(folder / "eval-after.jsonl"))
    known = [t for t in samples if not t.failed]
    chosen = [*[t for t in known if t.success][:2], *[t for t in known if not t.success][:1]]
    write_jsonl(folder / "samples.jsonl", chosen)
    for trajectory in chosen:
        print_trajectory(trajectory, console)
    console.print(f"held-out success before {_rate(before)}, after {_rate(after)}; {result.minutes:.1f} minutes")
    for when, found in (("before", before), ("after", after)):
        if found.failed:
            console.print(f"[bold yellow]{found.failed} episode(s) {when} training failed[/] and do not count:")
            print_errors(found, console)
        if (why := why_barren(found.sampled_tokens, found.format_error_rate)) is not None:
            console.print(f"[bold red]The evaluation {when} training says nothing about the model:[/] {why}.")
    curve = _draw(config, result, console)
    console.print(f"{curve}metrics: {folder / 'metrics.jsonl'}   model: {folder / 'model'}")


def _draw(config: TrainConfig, result: TrainResult, console: Console) -> str:
    """Draw the learning curve and return where it is. If the plot fails, the run keeps its results."""
    path, held_out = result.folder / "curve.png", (result.before.overall, result.after.overall)
    title = f"{config.env}, {config.model}, credit: {config.credit.value}"
    try:
        lines = list(read_metrics(result.folder / "metrics.jsonl"))
        draw_curve(path, {title: lines}, {title: held_out}, title)
    except Exception as error:
        console.print(f"[yellow]Could not draw the curve[/] ({describe(error)}); all other results are written.")
        return ""
    return f"curve: {path}   "


def _rate(summary: Summary) -> str:
    if summary.success is None or summary.interval is None:
        return "unknown (no episode reached its end)"
    return f"{summary.success:.1%} ({summary.interval.low:.1%} to {summary.interval.high:.1%})"


def _quiet() -> None:
    """Silence progress bars, log messages and warnings of libraries; their errors still appear."""
    datasets_logging.disable_progress_bar()
    transformers_logging.disable_progress_bar()
    for name in ("transformers", "trl", "accelerate", "datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for category in (UserWarning, FutureWarning):
        warnings.filterwarnings("ignore", category=category, module=r"(transformers|trl|torch|accelerate)\b.*")
