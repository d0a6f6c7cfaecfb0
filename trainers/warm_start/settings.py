"""The settings of a warm start, and the cache folder of its model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from agentgym.base.cache import cache_folder
from agentgym.base.errors import InfrastructureError
from agentgym.core.making import closed_after
from agentgym.core.policy import Policy
from agentgym.core.task import TRAIN, iterate
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.streams import play_jobs
from agentgym.trainers.tiny import CHAT_TEMPLATE, TinyShape


class Progress(Protocol):
    """Receives the progress of long operations."""

    def __call__(self, what: str, done: int, of: int, note: str = "") -> None:
        """Show that `done` of `of` units of `what` are done. The last call for each work has `done == of`.

        Args:
            what: The work.
            done: Finished units.
            of: All units.
            note: A short result so far.
        """
        ...


def no_progress(what: str, done: int, of: int, note: str = "") -> None:
    """Report nothing: the default `Progress`."""


_RECIPE_VERSION = 5
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
    model_kwargs: tuple[tuple[str, Any], ...] = ()
    """How the model is loaded (`precision.loading`)."""


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
    def is_cached(self) -> bool:
        """Whether the cache holds the model."""
        return (self.folder / "config.json").is_file()

    @property
    def context(self) -> int:
        """Longest conversation, in tokens."""
        source = self.shape or self.pretrained
        assert source is not None
        return source.context


MakePolicy = Callable[[Any, Any], Policy]
"""Creates a policy from `(model, tokenizer)`."""


_READ = 8
"""Number of task prompts in the fingerprint."""


def words_of(factory: EnvFactory) -> str:
    """Return a fingerprint of an environment's prompts: the system prompt, the tools and some tasks."""
    env = factory()
    try:
        prompts = [task.prompt for task in iterate(env.tasks, TRAIN, _READ)]
        read = [env.system_prompt, env.stated_limits, env.max_turns, env.tools.schemas, prompts]
    finally:
        env.close()
    return hashlib.sha256(json.dumps(read).encode()).hexdigest()[:16]


def training_tasks(factory: EnvFactory, tasks: int) -> int:
    """Return how many of `tasks` training tasks there are: all of them, unless the split is finite and smaller."""
    with closed_after(factory()) as probe:
        size = probe.tasks.size(TRAIN)
    return tasks if size is None else min(tasks, size)


def training_jobs(factory: EnvFactory, tasks: int, seed: int, *, skip: int = 0) -> Iterator[Job]:
    """Yield episodes of training tasks, each task once; in a finite split, the tasks depend on the seed.

    A finite split may have fewer tasks.
    """
    probe = factory()
    source = probe.tasks
    probe.close()
    draw = random.Random(f"warm-start/{seed}/{skip}" if skip else f"warm-start/{seed}")
    size = source.size("train")
    # In an endless split, avoid its start, which provides the tasks of reinforcement learning.
    first = 2**30 + skip
    indices = range(first, first + tasks) if size is None else draw.sample(range(size), min(tasks, size))
    for number, index in enumerate(indices):
        yield Job(source.get("train", index), draw.getrandbits(31), number % 256)


def attempts(
    model: Any,
    tokenizer: Any,
    make_policy: MakePolicy,
    jobs: Sequence[Job],
    factory: EnvFactory,
    max_new_tokens: int,
    progress: Callable[[int, int], None],
) -> list[Trajectory]:
    """Return the model's episodes that did not fail. Raises `InfrastructureError` if all failed.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        make_policy: Creates the policy.
        jobs: The episodes.
        factory: Makes the environments.
        max_new_tokens: Maximum sampled tokens per turn.
        progress: Called with the numbers of finished and of solved episodes.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        limits = Limits(max_new_tokens=max_new_tokens)
        policy = make_policy(model, tokenizer)
        played = asyncio.run(play_jobs(jobs, policy, factory, limits, progress=progress))
    model.train(was_training)
    real = [t for t in played if not t.failed]
    if not real:
        raise InfrastructureError(f"all {len(played)} episodes of the warm start failed; {played[0].error}")
    return real
