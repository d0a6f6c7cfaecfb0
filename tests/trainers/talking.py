"""Conversations with a tiny model that is sampled from in process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agentgym.core.policy import Generation
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.transformers_policy import Sampling, TransformersPolicy

PROMPTS = [[7, 8, 9], [10, 11, 12, 13, 14], [9, 9], [20] * 9, [31, 30], [8, 7, 6, 40]]
ANSWER = [33, 34, 35]


def policy(
    model: Any,
    tokenizer: Any,
    *,
    slots: int = 64,
    context: int = 128,
    replays: bool | None = None,
    **sampling: Any,
) -> TransformersPolicy:
    return TransformersPolicy(
        model,
        ChatCodec(tokenizer),
        end_ids=[tokenizer.eos_token_id],
        context=context,
        slots=slots,
        sampling=Sampling(**sampling),
        replays=replays,
    )


async def talk(policy: TransformersPolicy, session: str, prompt: Sequence[int], turns: int = 3) -> list[Generation]:
    """A conversation of several turns, each answered with the same observation."""
    ids, turns_so_far = list(prompt), []
    for turn in range(turns):
        turns_so_far.append(await policy.generate(ids, 5 + turn, session))
        ids += turns_so_far[-1].ids + ANSWER
        await asyncio.sleep(0)
    policy.release(session)
    return turns_so_far


def talks(policy: TransformersPolicy, prompts: Sequence[Sequence[int]] = PROMPTS) -> list[list[Generation]]:
    async def together() -> list[list[Generation]]:
        return await asyncio.gather(*(talk(policy, f"s{i}", prompt) for i, prompt in enumerate(prompts)))

    return asyncio.run(together())


def ids(conversations: list[list[Generation]]) -> list[list[list[int]]]:
    return [[turn.ids for turn in conversation] for conversation in conversations]
