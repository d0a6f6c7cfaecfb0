"""Trains a warm-started model once per set of settings, and caches it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from agentgym.errors import UsageError
from agentgym.messages import text_of
from agentgym.outputs import held
from agentgym.trainers import ranks
from agentgym.trainers.adapters import with_adapters
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.precision import training_dtype
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from agentgym.trainers.warm_start.demonstrations import demonstrations
from agentgym.trainers.warm_start.examples import examples, rendered
from agentgym.trainers.warm_start.fine_tuning import Course, Steps, fine_tune
from agentgym.trainers.warm_start.goal import Until
from agentgym.trainers.warm_start.own import learn_own
from agentgym.trainers.warm_start.playing import MakePolicy
from agentgym.trainers.warm_start.settings import Progress, WarmStart
from agentgym.trajectory import Trajectory

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
    if not (folder / "config.json").is_file():
        if ranks.world_size() > 1:
            raise UsageError(
                "the warm start runs in one process only; first start the same run once without a launcher"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        with held(folder.with_name(f"{folder.name}.making")):
            _make(settings, folder, progress, make_policy, load)
    own = settings.pretrained
    dtype = training_dtype(own.bf16, own.lora_rank) if own else torch.float32
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype), AutoTokenizer.from_pretrained(folder)


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
    return tiny_model(tokenizer, shape, seed), tokenizer


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
