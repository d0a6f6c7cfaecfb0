"""Episodes of training tasks during a warm start: solutions, evaluations, the model's own attempts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from agentgym.errors import InfrastructureError
from agentgym.policy import Policy
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.streams import play_jobs
from agentgym.task import TRAIN, iterate
from agentgym.trajectory import Trajectory

MakePolicy = Callable[[Any, Any], Policy]
"""Creates a policy from `(model, tokenizer)`."""


_READ = 8
"""Number of task prompts in the fingerprint."""


def words_of(factory: EnvFactory) -> str:
    """Return a fingerprint of an environment's prompts: the system prompt, the tools and some tasks."""
    env = factory()
    try:
        prompts = [task.prompt for task in iterate(env.tasks, TRAIN, _READ)]
        read = [env.system_prompt, env.states_turns, env.max_turns, env.tools.schemas, prompts]
    finally:
        env.close()
    return hashlib.sha256(json.dumps(read).encode()).hexdigest()[:16]


def training_jobs(factory: EnvFactory, tasks: int, seed: int, *, skip: int = 0) -> Iterator[Job]:
    """Yield episodes of training tasks; in a finite split, the tasks depend on the seed."""
    probe = factory()
    source = probe.tasks
    probe.close()
    draw = random.Random(f"warm-start/{seed}/{skip}" if skip else f"warm-start/{seed}")
    size = source.size("train")
    # In an endless split, avoid its start, which provides the tasks of reinforcement learning.
    first = 2**30 + skip
    indices = range(first, first + tasks) if size is None else [draw.randrange(size) for _ in range(tasks)]
    for number, index in enumerate(indices):
        yield Job(source.get("train", index), draw.getrandbits(31), number % 256)


def attempts(
    model: Any,
    tokenizer: Any,
    make_policy: MakePolicy,
    jobs: Sequence[Job],
    factory: EnvFactory,
    max_new_tokens: int,
) -> list[Trajectory]:
    """Return the model's episodes that did not fail. Raises `InfrastructureError` if all failed."""
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        played = asyncio.run(
            play_jobs(jobs, make_policy(model, tokenizer), factory, Limits(max_new_tokens=max_new_tokens))
        )
    model.train(was_training)
    real = [t for t in played if not t.failed]
    if not real:
        raise InfrastructureError(f"all {len(played)} episodes of the warm start failed; {played[0].error}")
    return real
