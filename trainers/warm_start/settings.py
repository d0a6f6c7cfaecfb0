"""The settings of a warm start, and where the model that they make is cached."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentgym.caches import cache_folder
from agentgym.trainers.tiny import CHAT_TEMPLATE, TinyShape

Progress = Callable[[str, int, int], None]
"""Called with `(what, done, of)` while something takes long."""


def untold(what: str, done: int, of: int) -> None:
    """Tell nobody: the `Progress` where none is asked for."""


_RECIPE_VERSION = 4
"""Part of the cache key. Raise it when the same settings would make a different model."""


@dataclass(frozen=True)
class Goal:
    """Ends a warm start early, once the model solves enough tasks."""

    share: float
    """Share of solved tasks among sampled training tasks that the model has not seen; above 0 and below 1."""
    max_new_tokens: int
    temperature: float
    tests: int = 30
    """How many times to test the model on the way."""
    tasks: int = 64
    """Tasks in a test."""


@dataclass(frozen=True)
class Own:
    """Rounds of learning from the model's own successes (rejection sampling)."""

    rounds: int
    tasks: int
    """Training tasks in a round; the model has seen none of them."""
    samples: int
    """Episodes per task; the successes that differ are learned from, once each."""
    max_new_tokens: int
    temperature: float


@dataclass(frozen=True)
class Pretrained:
    """The model that a warm start continues from, and how it is trained."""

    name: str
    state: str
    """Tells the model's content from that of another one with the same name."""
    context: int
    """Longest conversation, in tokens."""
    lora_rank: int = 0
    """0 trains all weights."""
    lora_alpha: int = 32
    bf16: bool = False
    """Compute in bfloat16; with LoRA, store the frozen weights in it too."""
    micro_batch: int | None = None
    """Trajectories per forward pass; by default the whole batch."""
    gradient_checkpointing: bool = False
    template_kwargs: tuple[tuple[str, Any], ...] = ()
    """Arguments of the model's chat template."""


@dataclass(frozen=True)
class WarmStart:
    """The settings of a warm start; equal settings share one cached model."""

    env: str
    env_kwargs: dict[str, Any]
    shape: TinyShape | None
    """Of the tiny model; `None` if `pretrained` is given."""
    steps: int
    tasks: int
    batch: int
    learning_rate: float
    seed: int
    goal: Goal | None = None
    """`None` runs all steps."""
    words: str | None = None
    """Tells what a model reads in this version of the environment from what it read in others."""
    files: str | None = None
    """State of the files that provide the tasks, if any."""
    pretrained: Pretrained | None = None
    recordings: str | None = None
    """File of recorded trajectories to imitate instead of solutions."""
    recordings_state: str | None = None
    """Tells the file's content from what it held before."""
    unsolved: bool = False
    """Imitate recorded trajectories that did not solve their task, too."""
    own: Own | None = None
    """Rounds of learning from the model's own successes, after the demonstrations."""

    @property
    def key(self) -> str:
        """Name of the cached model."""
        content = json.dumps([_RECIPE_VERSION, CHAT_TEMPLATE if self.shape else None, asdict(self)], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """The folder of the cached model."""
        return cache_folder() / ("tiny" if self.shape else "warm") / self.key

    @property
    def context(self) -> int:
        """Longest conversation, in tokens."""
        given = self.shape or self.pretrained
        assert given is not None
        return given.context
