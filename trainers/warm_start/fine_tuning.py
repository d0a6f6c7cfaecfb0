"""Supervised learning on examples with TRL's `SFTTrainer`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer  # pyright: ignore[reportPrivateImportUsage]

from agentgym.caches import cache_folder
from agentgym.errors import UsageError
from agentgym.trainers.logbook.records import MarkComplete, last_checkpoint
from agentgym.trainers.shared_prefix import share_prefixes
from agentgym.trainers.trl_seam import score_labels_only
from agentgym.trainers.versions import checkpointing
from agentgym.trainers.warm_start.examples import Example
from agentgym.trainers.warm_start.settings import Progress, WarmStart

_SAVES = 8
"""Number of checkpoints of a long warm start."""


@dataclass(frozen=True)
class Course:
    """The schedule of supervised learning."""

    steps: int
    batch: int
    learning_rate: float
    seed: int
    micro_batch: int
    """Trajectories per forward pass."""
    bf16: bool = False
    gradient_checkpointing: bool = False
    by_length: bool = False
    """Batch examples of similar length, so that there is little padding."""
    checkpoints: Path | None = None
    """Folder for checkpoints, to continue after a crash; `None` writes none."""

    @classmethod
    def of(cls, settings: WarmStart, checkpoints: Path) -> Course:
        """Return the course of a warm start."""
        own, batch = settings.pretrained, settings.batch
        base = cls(settings.steps, batch, settings.learning_rate, settings.seed, batch)
        if own is None:
            return base
        micro = min(own.micro_batch or batch, batch)
        while batch % micro:
            micro -= 1
        return replace(
            base,
            micro_batch=micro,
            checkpoints=checkpoints,
            bf16=own.bf16,
            gradient_checkpointing=own.gradient_checkpointing,
            by_length=True,
        )


def fine_tune(
    model: Any, tokenizer: Any, examples: Sequence[Example], course: Course, callbacks: Sequence[TrainerCallback]
) -> None:
    """Train a model, which may have LoRA adapters, on examples; continue from a checkpoint if there is one."""
    score_labels_only()
    trainer = SFTTrainer(
        model=model,
        args=_arguments(course),
        train_dataset=Dataset.from_list([asdict(example) for example in in_order(examples, course)]),
        processing_class=tokenizer,
        callbacks=[*callbacks, MarkComplete()],
    )
    share_prefixes(model)
    trainer.remove_callback(PrinterCallback)  # `Steps` reports the progress
    done = last_checkpoint(course.checkpoints) if course.checkpoints else None
    try:
        trainer.train(resume_from_checkpoint=str(done) if done else None)
    except torch.OutOfMemoryError as error:
        raise UsageError(
            f"out of memory: {str(error).splitlines()[0]} Lower micro_batch or context, or set "
            "gradient_checkpointing: true, bf16: true or lora_rank: 16."
        ) from error


def in_order(examples: Sequence[Example], course: Course) -> list[Example]:
    """Return the examples of all steps, in order: each example once, in random order, before any repeats.

    With `course.by_length`, each forward pass gets examples of similar length.
    """
    draw = random.Random(f"warm-start/order/{course.seed}")
    needed = course.steps * course.batch
    ordered: list[Example] = []
    while len(ordered) < needed:
        ordered += _shuffled(examples, draw, course.micro_batch if course.by_length else 1)
    return ordered[:needed]


def _shuffled(examples: Sequence[Example], draw: random.Random, together: int) -> list[Example]:
    shuffled = draw.sample(examples, len(examples))
    if together > 1:
        shuffled.sort(key=lambda example: len(example.input_ids))
    parts = [shuffled[at : at + together] for at in range(0, len(shuffled), together)]
    draw.shuffle(parts)
    # An incomplete part would shift all later parts, so it comes last.
    parts.sort(key=lambda part: len(part) < together)
    return [example for part in parts for example in part]


def _arguments(course: Course) -> SFTConfig:
    return SFTConfig(
        output_dir=str(course.checkpoints or cache_folder() / "sft"),
        max_steps=course.steps,
        per_device_train_batch_size=course.micro_batch,
        gradient_accumulation_steps=course.batch // course.micro_batch,
        learning_rate=course.learning_rate,
        # Not down to zero: reinforcement learning continues at a similar rate, and its first step would cost a policy
        # in a sharp minimum a third of its success.
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.3},
        warmup_steps=min(20, course.steps // 5),
        weight_decay=0.01,
        max_length=None,
        use_cpu=not torch.cuda.is_available(),
        bf16=course.bf16,
        **checkpointing(course.gradient_checkpointing),
        seed=course.seed,
        train_sampling_strategy="sequential",  # `in_order` has shuffled
        report_to=[],
        save_strategy="steps" if course.checkpoints else "no",
        save_steps=max(1, course.steps // _SAVES),
        save_total_limit=2,
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


class Steps(TrainerCallback):
    """Reports the steps of the trainer."""

    def __init__(self, progress: Progress, what: str = "warm start"):
        self._progress, self._what = progress, what

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report a step."""
        self._progress(self._what, state.global_step, state.max_steps)
