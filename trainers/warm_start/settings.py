"""The settings of a warm start, and the cache folder of its model."""

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
"""Called with `(what, done, of)` during long operations."""


def no_progress(what: str, done: int, of: int) -> None:
    """Report nothing: the default `Progress`."""


_RECIPE_VERSION = 4
"""Part of the cache key. Raise it when the same settings would make a different model."""


@dataclass(frozen=True)
class Goal:
    """Ends a warm start early, once the model solves enough tasks."""

    share: float
    """Required share of solved tasks among new training tasks; above 0 and below 1."""
    max_new_tokens: int
    temperature: float
    tests: int = 30
    """Number of evaluations."""
    tasks: int = 64
    """Tasks per evaluation."""


@dataclass(frozen=True)
class Own:
    """Rounds of learning from the model's own successes (rejection sampling)."""

    rounds: int
    tasks: int
    """New training tasks per round."""
    samples: int
    """Episodes per task; each distinct success is learned from once."""
    max_new_tokens: int
    temperature: float


@dataclass(frozen=True)
class Pretrained:
    """The model that a warm start continues from, and how it is trained."""

    name: str
    state: str
    """Distinguishes the model's content from that of others with the same name."""
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
    """Of the tiny model; `None` with `pretrained`."""
    steps: int
    tasks: int
    batch: int
    learning_rate: float
    seed: int
    goal: Goal | None = None
    """`None` runs all steps."""
    words: str | None = None
    """Distinguishes versions of the environment's prompts."""
    files: str | None = None
    """State of the files that provide the tasks, if any."""
    pretrained: Pretrained | None = None
    recordings: str | None = None
    """File of recorded trajectories, in place of solutions."""
    recordings_state: str | None = None
    """Distinguishes versions of the file."""
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
        source = self.shape or self.pretrained
        assert source is not None
        return source.context
