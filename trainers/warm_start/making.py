"""Trains a warm-started model once per set of settings, and caches it."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer  # pyright: ignore[reportPrivateImportUsage]

from agentgym.base.cache import cache_folder
from agentgym.base.errors import UsageError
from agentgym.base.output_files import held
from agentgym.core.endings import Reason
from agentgym.core.messages import text_of
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.registry import class_of
from agentgym.core.task import TRAIN
from agentgym.core.trajectory import Tokens, Trajectory, read_jsonl
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.streams import play_jobs
from agentgym.trainers.adapters import with_adapters
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.config import short_name
from agentgym.trainers.logbook.records import MarkComplete
from agentgym.trainers.precision import loading
from agentgym.trainers.run_folder import last_checkpoint
from agentgym.trainers.shared_prefix import share_prefixes
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from agentgym.trainers.trl_seam import score_labels_only
from agentgym.trainers.versions import checkpointing
from agentgym.trainers.warm_start.examples import Example, examples, rendered
from agentgym.trainers.warm_start.settings import (
    Goal,
    MakePolicy,
    Own,
    Progress,
    WarmStart,
    attempts,
    training_jobs,
    training_tasks,
)

_log = logging.getLogger(__name__)


def demonstrations(settings: WarmStart, progress: Progress) -> list[Trajectory]:
    """Return the trajectories to imitate. Raises `UsageError` if none is usable."""
    if settings.recordings is not None:
        return recorded(settings)
    return solutions(settings.env, settings.env_kwargs, settings.tasks, settings.seed, progress)


def solutions(env: str, env_kwargs: dict[str, Any], tasks: int, seed: int, progress: Progress) -> list[Trajectory]:
    """Return solution trajectories of up to `tasks` training tasks, each played once, without broken tasks.

    Raises:
        UsageError: A solution does not solve its task. For tasks from files, some of which may exceed limits such as
            `max_turns`: no solution solves its task.
    """
    factory = EnvFactory(env, env_kwargs)
    tasks = training_tasks(factory, tasks)
    jobs = training_jobs(factory, tasks, seed)
    trajectories: list[Trajectory] = []

    def show(before: int, finished: int, solved: int) -> None:
        progress("solving tasks", before + finished, tasks)

    while batch := list(islice(jobs, 256)):
        limits, shown = Limits(max_in_flight=16), partial(show, len(trajectories))
        trajectories += asyncio.run(play_jobs(batch, ScriptedPolicy(), factory, limits, progress=shown))
    solved = [t for t in trajectories if t.success]
    unsolved = [t for t in trajectories if not t.success and t.reason is not Reason.BROKEN_TASK]
    if not unsolved and solved:
        return solved
    first = unsolved[0] if unsolved else trajectories[0]
    why = f" ({first.reason})" if first.error is None else f" ({first.error})"
    total = len(trajectories)
    problem = f"{env}: solution() does not solve {first.task_id!r}{why}, {total - len(solved)} of {total} tasks"
    if not solved or not _from_files(env, env_kwargs):
        raise UsageError(problem)
    _log.warning("%s; the warm start uses the other tasks", problem)
    return solved


def recorded(settings: WarmStart) -> list[Trajectory]:
    """Return the recorded trajectories of training tasks, by default only successful ones.

    Raises:
        UsageError: The file is unreadable, from another environment or in another dialect, or contains no usable
            trajectory.
    """
    assert settings.recordings is not None
    path = Path(settings.recordings)
    trajectories = list(read_jsonl(path))
    for number, trajectory in enumerate(trajectories, start=1):
        _check_fits(trajectory, settings, f"{path}, trajectory {number}")
    usable = [t for t in trajectories if t.split == TRAIN and not t.failed and (t.success or settings.unsolved)]
    if not usable:
        kind = "a trajectory" if settings.unsolved else "a success"
        raise UsageError(
            f"{path}: none of the {len(trajectories)} trajectories is {kind} on a task of the split {TRAIN!r}; record "
            f"some with `agentgym eval --tasks {TRAIN} --out FILE`"
        )
    return usable


def _check_fits(trajectory: Trajectory, settings: WarmStart, where: str) -> None:
    if short_name(trajectory.env_id) != short_name(settings.env):
        raise UsageError(
            f"{where} was recorded in {trajectory.env_id!r}, but the run trains in {settings.env!r}; a model learns "
            "from trajectories of its own environment"
        )
    run_dialect, dialect = settings.env_kwargs["dialect"], trajectory.env_kwargs.get("dialect")
    if dialect != run_dialect or any(not isinstance(turn.action, str) for turn in trajectory.model_turns):
        raise UsageError(
            f"{where} writes its calls in the dialect {dialect!r}, but the run's model writes them in {run_dialect!r}; "
            f"record it with --dialect {run_dialect}, or train with --dialect {dialect}"
        )


def _from_files(env: str, env_kwargs: Mapping[str, Any]) -> bool:
    files = class_of(env).files
    return files is not None and env_kwargs.get(files.argument) is not None


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

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report an end before the last step."""
        if state.global_step < state.max_steps:
            self._progress(self._what, state.global_step, state.global_step)


class Until(TrainerCallback):
    """Evaluates the model at intervals, and ends the training once it solves enough tasks."""

    def __init__(self, goal: Goal, settings: WarmStart, progress: Progress, make_policy: MakePolicy):
        self._goal, self._progress, self._make_policy = goal, progress, make_policy
        self._factory = EnvFactory(settings.env, settings.env_kwargs)
        self._jobs = list(training_jobs(self._factory, goal.tasks, settings.seed, skip=settings.tasks))
        self._every = max(1, settings.steps // goal.tests)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate the model if it is due."""
        if state.global_step % self._every:
            return
        model, tokenizer = kwargs["model"], kwargs["processing_class"]
        progress = _testing(self._progress, "test of the warm start", len(self._jobs))
        played = attempts(
            model, tokenizer, self._make_policy, self._jobs, self._factory, self._goal.max_new_tokens, progress
        )
        solved = sum(t.success for t in played)
        if solved >= self._goal.share * len(played):
            control.should_training_stop = control.should_save = True


def learn_own(
    model: Any, tokenizer: Any, settings: WarmStart, own: Own, course: Course, progress: Progress, make: MakePolicy
) -> None:
    """Train the model on its own successes, in rounds; a round without successes is skipped."""
    for number in range(own.rounds):
        solved = successes(model, tokenizer, settings, own, number, progress, make)
        if not solved:
            _log.warning("warm start: the model solved none of %d tasks, so it learned nothing from them", own.tasks)
            continue
        steps = max(1, len(solved) // course.batch)
        fine_tune(
            model,
            tokenizer,
            examples(solved, settings.context),
            # The final learning rate of the demonstrations.
            replace(course, steps=steps, learning_rate=0.3 * course.learning_rate, checkpoints=None),
            [Steps(progress, f"own successes, round {number + 1}")],
        )


def successes(
    model: Any, tokenizer: Any, settings: WarmStart, own: Own, number: int, progress: Progress, make: MakePolicy
) -> list[Tokens]:
    """Return the distinct successful conversations of a round, as sampled."""
    factory = EnvFactory(settings.env, settings.env_kwargs)
    tested = settings.goal.tasks if settings.goal else 0
    fresh = training_jobs(factory, own.tasks, settings.seed, skip=settings.tasks + tested + number * own.tasks)
    jobs = [job for first in fresh for job in _repeated(first, own.samples)]
    shown = _testing(progress, f"own attempts, round {number + 1}", len(jobs))
    played = attempts(model, tokenizer, make, jobs, factory, own.max_new_tokens, shown)
    whole = [t for t in played if t.success and not any(t.cut_turns)]
    return [tokens for t in whole if (tokens := t.tokens) is not None and _is_first(t, whole)]


def _testing(progress: Progress, what: str, episodes: int) -> Callable[[int, int], None]:
    """Return a callback for `attempts` that shows the finished episodes, and how many are solved."""
    return lambda done, solved: progress(what, done, episodes, f"{solved} solved")


def _repeated(job: Job, samples: int) -> Iterator[Job]:
    for attempt in range(samples):
        yield replace(job, attempt=attempt)


def _is_first(trajectory: Trajectory, played: list[Trajectory]) -> bool:
    """Whether no earlier attempt at the task has the same actions."""
    actions = [turn.action for turn in trajectory.model_turns]
    same = (
        other
        for other in played
        if other.task_id == trajectory.task_id and [turn.action for turn in other.model_turns] == actions
    )
    return next(same) is trajectory


Load = Callable[[], tuple[Any, Any]]
"""Returns `(model, tokenizer)` to start from."""


def warm_started(
    settings: WarmStart, progress: Progress, make_policy: MakePolicy, load: Load | None = None
) -> tuple[Any, Any]:
    """Return `(model, tokenizer)` of a warm-started model; train it if it is not cached.

    Args:
        settings: The settings of the warm start.
        progress: Called with `(what, done, of)` during long operations.
        make_policy: Creates the policy that attempts tasks.
        load: Loads the pretrained model, if the settings name one.

    Raises:
        UsageError: No usable demonstrations, or another process is training the same model.
    """
    folder = settings.folder
    if not settings.is_cached:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with held(folder.with_name(f"{folder.name}.making")):
            _make(settings, folder, progress, make_policy, load)
    own = settings.pretrained
    options = {"dtype": torch.float32} if own is None else loading(own.bf16, own.lora_rank, dict(own.model_kwargs))
    return load_warm(folder, options)


def load_warm(folder: Path, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return `(model, tokenizer)` of a warm-started model, given options of `from_pretrained`."""
    return AutoModelForCausalLM.from_pretrained(folder, **options), AutoTokenizer.from_pretrained(folder)


def _make(settings: WarmStart, folder: Path, progress: Progress, make_policy: MakePolicy, load: Load | None) -> None:
    """Train the model and move it into the cache atomically, so that a killed run leaves nothing incomplete.

    Checkpoints of a pretrained model stay in the cache until it is complete: the next run with these settings continues
    from them.
    """
    needs = settings.steps or settings.shape
    trajectories = demonstrations(settings, progress) if needs else []
    model, tokenizer = _start(settings, trajectories, progress, load)
    own = settings.pretrained
    if own is not None and own.lora_rank:
        model = with_adapters(model, own.lora_rank, own.lora_alpha, settings.seed)
    checkpoints = folder.with_name(f"{folder.name}.checkpoints")
    course = Course.of(settings, checkpoints)
    if settings.steps:
        codec = ChatCodec(tokenizer, template_kwargs=dict(own.template_kwargs) if own else None)
        learned = examples((rendered(t, codec) for t in trajectories), settings.context)
        fine_tune(model, tokenizer, learned, course, _callbacks(settings, progress, make_policy))
    if settings.own is not None:
        learn_own(model, tokenizer, settings, settings.own, course, progress, make_policy)
    _save(model, tokenizer, folder)
    shutil.rmtree(checkpoints, ignore_errors=True)


def _start(
    settings: WarmStart, trajectories: list[Trajectory], progress: Progress, load: Load | None
) -> tuple[Any, Any]:
    if settings.shape is not None:
        return _fresh_tiny(settings.shape, settings.seed, trajectories, progress)
    assert load is not None
    model, tokenizer = load()
    if torch.cuda.is_available():
        model.to("cuda")
    return model, tokenizer


def _fresh_tiny(shape: TinyShape, seed: int, trajectories: list[Trajectory], progress: Progress) -> tuple[Any, Any]:
    progress("learning a tokenizer", 0, 1)
    texts = (text_of(message) for trajectory in trajectories for message in trajectory.messages)
    constants = {text_of(t.opening[0]) for t in trajectories if t.opening[0].get("role") == "system"}
    tokenizer = tiny_tokenizer(texts, shape.vocabulary, constants=constants if len(constants) == 1 else ())
    model = tiny_model(tokenizer, shape, seed)
    progress("learning a tokenizer", 1, 1)
    return model, tokenizer


def _callbacks(settings: WarmStart, progress: Progress, make_policy: MakePolicy) -> list[TrainerCallback]:
    callbacks: list[TrainerCallback] = [Steps(progress)]
    if settings.goal:
        callbacks.append(Until(settings.goal, settings, progress, make_policy))
    return callbacks


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the model, with its adapters merged, atomically."""
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
