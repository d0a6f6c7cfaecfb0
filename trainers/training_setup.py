"""Checks before a run writes anything, and what a resumed or interrupted run needs to know of its folder."""

from __future__ import annotations

import errno
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets.utils import logging as datasets_logging
from transformers.utils import logging as transformers_logging

from agentgym.base.errors import AgentGymError, UsageError
from agentgym.core.task import TaskSource
from agentgym.rollout import EnvFactory
from agentgym.rollout.fitness import check_prompt_fits
from agentgym.trainers.config import TrainConfig, load_config, to_dict
from agentgym.trainers.logbook.records import last_checkpoint
from agentgym.trainers.policies import codec_of, positions_of
from agentgym.trainers.trl_config import optimizer_steps

_MAY_CHANGE = (
    *("steps", "save_every", "keep_checkpoints", "record_groups", "plateau_warning"),
    *("workers", "ray", "max_in_flight", "outage", "micro_batch", "gradient_checkpointing", "vllm_memory"),
    *("generation_timeout_s", "reset_timeout_s", "step_timeout_s", "tool_timeout_s", "episode_timeout_s"),
)
"""Settings that a resumed run may change: its length, its limits and where it runs.

Any other would put a new tokenizer, model, task or loss under the weights of the checkpoint.
"""


def quiet_libraries() -> None:
    """Silence progress bars, log messages and warnings of libraries; their errors still appear."""
    datasets_logging.disable_progress_bar()
    transformers_logging.disable_progress_bar()
    for name in ("transformers", "trl", "accelerate", "datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for category in (UserWarning, FutureWarning):
        warnings.filterwarnings("ignore", category=category, module=r"(transformers|trl|torch|accelerate)\b.*")


def check_prompt(config: TrainConfig, factory: EnvFactory, source: TaskSource, model: Any, tokenizer: Any) -> None:
    """Raise `UsageError` if the first training task's prompt does not fit into the context."""
    allowed = positions_of(model.config) or config.context
    codec = codec_of(config, model, tokenizer)
    advice = f"Raise --context (the model allows {allowed}), or give the environment arguments with a shorter prompt."
    check_prompt_fits(codec, min(config.context, allowed), factory, source.get("train", 0), advice)


@contextmanager
def explained_full_disk(config: TrainConfig) -> Iterator[None]:
    """Turn the error of a full disk, from whichever library, into a `UsageError` with advice."""
    try:
        yield
    except Exception as error:
        if isinstance(error, AgentGymError) or not _is_full_disk(error):
            raise
        raise UsageError(
            f"cannot write to {str(config.folder)!r}: no space left on the device. Make room. {how_to_resume(config)}"
        ) from error


def _is_full_disk(error: BaseException) -> bool:
    """Whether an error is that of a full disk. Rust's and torch's writers say so by their texts only."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(words in str(error) for words in ("No space left on device", "PytorchStreamWriter failed writing"))


def steps_in(checkpoint: Path | None, config: TrainConfig) -> int:
    """Return the number of completed training steps in a checkpoint; 0 without one."""
    return 0 if checkpoint is None else int(checkpoint.name.rpartition("-")[2]) // optimizer_steps(config)


def how_to_resume(config: TrainConfig) -> str | None:
    """Return a message on how to resume an interrupted run, or `None` if it has written nothing."""
    if not (config.folder / "config.yaml").is_file():
        return None
    checkpoint = last_checkpoint(config.folder)
    if checkpoint is None:
        return (
            f"The run in {config.folder} has no checkpoint yet; the same command with --resume starts its training "
            "again and keeps the finished evaluations."
        )
    done = f"step {steps_in(checkpoint, config)} of {config.steps}"
    return f"The run in {config.folder} has a checkpoint of {done}; the same command with --resume continues from it."


def checkpoint_to_resume(config: TrainConfig) -> Path | None:
    """Return the checkpoint to continue from. Raises `UsageError` if it is missing or a run would be overwritten."""
    checkpoint = last_checkpoint(config.folder)
    if config.resume:
        if checkpoint is None and not (config.folder / "config.yaml").is_file():
            raise UsageError(f"there is nothing to resume in {str(config.folder)!r}")
        return checkpoint
    if checkpoint is not None:
        raise UsageError(
            f"{str(config.folder)!r} already holds a run; continue it with --resume, or choose another --output-dir"
        )
    _check_own(config.folder)
    return None


_REPLACED = (
    *("config.yaml", "metrics.jsonl", "summary.json", "samples.jsonl", "curve.png"),
    *("eval-before.jsonl", "eval-after.jsonl"),
)
"""Files that a new run in a folder replaces."""


def _check_own(folder: Path) -> None:
    """Raise `UsageError` if a run would replace files that no run has written."""
    try:
        load_config(str(folder / "config.yaml"))
    except UsageError:
        if existing := [name for name in _REPLACED if (folder / name).exists()]:
            raise UsageError(
                f"{str(folder)!r} holds {', '.join(existing)}, but no run of agentgym; choose another --output-dir"
            ) from None


def check_resumed(config: TrainConfig, checkpoint: Path | None) -> None:
    """Raise `UsageError` if a checkpoint cannot be continued with these settings."""
    if checkpoint is None:
        return
    if fixed := {name: values for name, values in changed_settings(config).items() if name not in _MAY_CHANGE}:
        raise UsageError(
            f"cannot resume {str(config.folder)!r} with other settings: {settings_text(fixed)}; "
            f"resume with --recipe {config.folder / 'config.yaml'}, or choose another --output-dir"
        )
    if (done := steps_in(checkpoint, config)) > config.steps:
        raise UsageError(f"{str(config.folder)!r} has a checkpoint of step {done}, beyond --steps {config.steps}")


def changed_settings(config: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from those of the run's `config.yaml`: before and now."""
    before, now = to_dict(load_config(str(config.folder / "config.yaml"))), to_dict(config)
    names = now.keys() - {"resume", "output_dir"}
    return {name: (before[name], now[name]) for name in sorted(names) if before[name] != now[name]}


def settings_text(changed: dict[str, tuple[Any, Any]]) -> str:
    """Return changed settings as text."""
    return ", ".join(f"{name} {before!r} is now {now!r}" for name, (before, now) in changed.items())


def has_same_config(config: TrainConfig) -> bool:
    """Whether an earlier run in the folder started with this configuration, and hence from the same model."""
    try:
        return replace(load_config(str(config.folder / "config.yaml")), resume=config.resume) == config
    except UsageError:
        return False
