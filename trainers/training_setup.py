"""Checks before a run writes anything, and errors of a full disk."""

from __future__ import annotations

import errno
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from datasets.utils import logging as datasets_logging
from transformers.utils import logging as transformers_logging

from agentgym.base.errors import AgentGymError, UsageError
from agentgym.core.task import TaskSource
from agentgym.rollout import EnvFactory
from agentgym.rollout.fitness import check_prompt_fits
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.policies import codec_of, positions_of
from agentgym.trainers.run_folder import how_to_resume


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
            f"cannot write to {str(config.folder)!r}: no space left on the device. Make room. "
            f"{how_to_resume(config.folder, config.steps) or ''}"
        ) from error


def _is_full_disk(error: BaseException) -> bool:
    """Whether an error is that of a full disk. Rust's and torch's writers say so by their texts only."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(words in str(error) for words in ("No space left on device", "PytorchStreamWriter failed writing"))
