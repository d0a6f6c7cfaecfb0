"""Warm start: supervised learning on the assistant tokens of solution trajectories with TRL's `SFTTrainer`, cached.

Models learn to copy, which most tool calls need, within a few dozen steps, and sooner with some seeds than with others.
After the same number of steps, one policy may still earn nothing and another may have nothing left to learn. A warm
start can therefore also end when the policy solves a share of tasks (`WarmStart.goal`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer  # pyright: ignore[reportPrivateImportUsage]

from agentgym.caches import cache_folder
from agentgym.endings import Reason
from agentgym.errors import InfrastructureError, UsageError
from agentgym.messages import text_of
from agentgym.policy import Policy, ScriptedPolicy
from agentgym.registry import class_of
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.trainers import ranks
from agentgym.trainers.tiny import CHAT_TEMPLATE, TinyShape, tiny_model, tiny_tokenizer
from agentgym.trainers.versions import checkpointing
from agentgym.trajectory import Trajectory

Progress = Callable[[str, int, int], None]
"""Called with `(what, done, of)` while something takes long."""

MakePolicy = Callable[[Any, Any], Policy]
"""Makes a policy from `(model, tokenizer)`."""

_log = logging.getLogger(__name__)

_TRIES = 30
_TRIED = 64
"""If a warm start has a goal: how many times to test the model on the way, and on how many tasks."""

_RECIPE_VERSION = 3
"""Part of the cache key. Raise it when the same settings would make a different model."""


@dataclass(frozen=True)
class Goal:
    """Ends a warm start early, once the model solves enough tasks."""

    share: float
    """Share of solved tasks among sampled training tasks that the model has not seen; above 0 and below 1."""
    max_new_tokens: int
    temperature: float


@dataclass(frozen=True)
class WarmStart:
    """The settings of a warm-started tiny model; equal settings share one cached model."""

    env: str
    env_kwargs: dict[str, Any]
    shape: TinyShape
    steps: int
    tasks: int
    batch: int
    learning_rate: float
    seed: int
    goal: Goal | None = None
    """`None` runs all steps."""
    files: str | None = None
    """State of the files that provide the tasks, if any."""

    @property
    def key(self) -> str:
        """Name of the cached model."""
        settings = {name: value for name, value in asdict(self).items() if name != "files" or value is not None}
        content = json.dumps([_RECIPE_VERSION, CHAT_TEMPLATE, settings], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def warm_started(settings: WarmStart, progress: Progress, make_policy: MakePolicy) -> tuple[Any, Any]:
    """Return `(model, tokenizer)` of the tiny model; make it if the cache does not have it.

    If the warm start has a goal, `make_policy` makes the policy that attempts tasks.
    """
    folder = cache_folder() / "tiny" / settings.key
    if not (folder / "config.json").is_file():
        if ranks.world_size() > 1:
            raise UsageError(
                "only one process can make the tiny model; first start the same run once without a launcher"
            )
        _make(settings, folder, progress, make_policy)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(folder)


def solutions(env: str, env_kwargs: dict[str, Any], tasks: int, seed: int, progress: Progress) -> list[Trajectory]:
    """Return solution trajectories of `tasks` training tasks, except of broken tasks.

    Raises:
        UsageError: A solution does not solve its task. For tasks from files, some of which may need more than limits
            such as `max_turns` allow: no solution solves its task.
    """
    factory = EnvFactory(env, env_kwargs)
    jobs = _training_jobs(factory, tasks, seed)
    found: list[Trajectory] = []
    while some := list(islice(jobs, 256)):
        found += asyncio.run(collect(some, ScriptedPolicy(), factory, Limits(max_in_flight=16)))
        progress("solving tasks", len(found), tasks)
    solved = [t for t in found if t.success]
    unsolved = [t for t in found if not t.success and t.reason is not Reason.BROKEN_TASK]
    if not unsolved and solved:
        return solved
    first = unsolved[0] if unsolved else found[0]
    why = f" ({first.reason})" if first.error is None else f" ({first.error})"
    problem = (
        f"{env}: solution() does not solve {first.task_id!r}{why}, {len(found) - len(solved)} of {len(found)} tasks"
    )
    if not solved or not _from_files(env, env_kwargs):
        raise UsageError(problem)
    _log.warning("%s; the warm start uses the others", problem)
    return solved


def _from_files(env: str, env_kwargs: Mapping[str, Any]) -> bool:
    files = class_of(env).files
    return files is not None and env_kwargs.get(files.argument) is not None


def _training_jobs(factory: EnvFactory, tasks: int, seed: int, *, skip: int = 0) -> Iterator[Job]:
    """Yield episodes of training tasks; in a finite split, the tasks depend on the seed."""
    probe = factory()
    source = probe.tasks
    probe.close()
    draw = random.Random(f"warm-start/{seed}/{skip}" if skip else f"warm-start/{seed}")
    size = source.size("train")
    # In an endless split, stay far from its start, where reinforcement learning takes its tasks.
    first = 2**30 + skip
    indices = range(first, first + tasks) if size is None else [draw.randrange(size) for _ in range(tasks)]
    for number, index in enumerate(indices):
        yield Job(source.get("train", index), draw.getrandbits(31), number % 256)


def _make(settings: WarmStart, folder: Path, progress: Progress, make_policy: MakePolicy) -> None:
    """Train the model and move it into the cache in one step, so that a killed run leaves nothing incomplete."""
    trajectories = solutions(settings.env, settings.env_kwargs, settings.tasks, settings.seed, progress)
    progress("learning a tokenizer", 0, 1)
    texts = (text_of(message) for trajectory in trajectories for message in trajectory.messages)
    constants = {text_of(t.opening[0]) for t in trajectories if t.opening[0].get("role") == "system"}
    tokenizer = tiny_tokenizer(texts, settings.shape.vocabulary, constants=constants if len(constants) == 1 else ())
    model = tiny_model(tokenizer, settings.shape, settings.seed)
    if settings.steps:
        callbacks: list[TrainerCallback] = [_Steps(progress)]
        if settings.goal:
            callbacks.append(_Until(settings.goal, settings, progress, make_policy))
        _fine_tune(model, tokenizer, trajectories, settings, callbacks)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def _fine_tune(
    model: Any,
    tokenizer: Any,
    trajectories: list[Trajectory],
    settings: WarmStart,
    callbacks: list[TrainerCallback],
) -> None:
    # Only what a template needs: SFT renders the same conversation that a rollout renders piece by piece.
    rows = [{"messages": [{"role": m.get("role"), "content": text_of(m)} for m in t.messages]} for t in trajectories]
    arguments = SFTConfig(
        output_dir=str(cache_folder() / "sft"),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.batch,
        learning_rate=settings.learning_rate,
        # Not down to zero: reinforcement learning continues at a rate of this size, and a policy in a sharp minimum
        # loses a third of its success at the first such step.
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.3},
        warmup_steps=min(20, settings.steps // 5),
        weight_decay=0.01,
        max_length=settings.shape.context,
        assistant_only_loss=True,
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        **checkpointing(False),
        seed=settings.seed,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    trainer.remove_callback(PrinterCallback)  # _Steps reports the progress
    trainer.train()


class _Steps(TrainerCallback):
    """Reports the steps of the trainer."""

    def __init__(self, progress: Progress):
        self._progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._progress("warm start", state.global_step, state.max_steps)


class _Until(TrainerCallback):
    """Ends a warm start at its goal."""

    def __init__(self, goal: Goal, settings: WarmStart, progress: Progress, make_policy: MakePolicy):
        self._progress, self._make_policy = progress, make_policy
        self._limits = Limits(max_new_tokens=goal.max_new_tokens)
        self._factory = EnvFactory(settings.env, settings.env_kwargs)
        self._jobs = list(_training_jobs(self._factory, _TRIED, settings.seed, skip=settings.tasks))
        self._share = goal.share
        self._every = max(1, settings.steps // _TRIES)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self._every:
            return
        solved, played = self._solved(kwargs["model"], kwargs["processing_class"])
        self._progress("solved after the warm start", solved, played)
        control.should_training_stop |= solved >= self._share * played

    def _solved(self, model: Any, tokenizer: Any) -> tuple[int, int]:
        """Return how many episodes solved their task, and how many did not fail."""
        model.eval()
        with torch.inference_mode():
            tried = asyncio.run(collect(self._jobs, self._make_policy(model, tokenizer), self._factory, self._limits))
        model.train()
        played = [t for t in tried if not t.failed]
        if not played:
            raise InfrastructureError(f"all {len(tried)} episodes that test the warm start failed; {tried[0].error}")
        return sum(t.success for t in played), len(played)
