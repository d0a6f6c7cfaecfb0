"""Properties of a sampler that a trainer needs, measured with a small random model in float32."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from agentgym.trainers.transformers_policy import TransformersPolicy
from benchmarks._continuous_batching import continuous_batching

TOKENS, POSITIONS = 20, 4096

Prompts = Sequence[Sequence[int]]
Turn = tuple[list[int], list[float]]
"""Sampled tokens and their log-probabilities."""


class Sampler(Protocol):
    def __call__(self, model: Any, *batches: Prompts) -> list[list[Turn]]:
        """Sample a turn for each prompt of each batch. Before every batch but the first, the weights change."""
        ...


def needs() -> list[dict[str, Any]]:
    """Return rows for our sampler and for continuous batching of transformers."""
    draw = random.Random(0)
    prompts = [[draw.randrange(10, 250) for _ in range(length)] for length in (5, 40, 90, 17, 60, 33)]
    rows: list[dict[str, Any]] = []
    for name, sample in (("in process", ours), ("transformers", theirs)):
        values = {
            "turns that differ when sampled alone, of 6": differing(sample, prompts),
            "largest error of a log-probability": error(sample, [prompts]),
            "largest error of a log-probability after the weights change": error(sample, [prompts, prompts]),
        }
        rows += [{"name": name, "need": need, "value": value} for need, value in values.items()]
    return rows


def differing(sample: Sampler, prompts: Prompts) -> int:
    [together] = sample(small_model(), prompts)
    alone = [sample(small_model(), [prompt])[0][0] for prompt in prompts]
    return sum(first != second for (first, _), (second, _) in zip(together, alone, strict=True))


def error(sample: Sampler, batches: Sequence[Prompts]) -> float:
    """Return the largest difference between log-probabilities of the last batch and those of a pass without a cache."""
    model = small_model()
    worst = 0.0
    for prompt, (ids, logprobs) in zip(batches[-1], sample(model, *batches)[-1], strict=True):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
        plain = torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        worst = max(worst, float((plain - torch.tensor(logprobs)).abs().max()))
    return float(f"{worst:.1e}")


def ours(model: Any, *batches: Prompts) -> list[list[Turn]]:
    codec = ChatCodec(tiny_tokenizer(["a"], 0))
    policy = TransformersPolicy(model, codec, end_ids=[], context=POSITIONS)

    async def turn(number: int, prompt: Sequence[int]) -> Turn:
        # A prompt always has the same name, and thus the same random numbers.
        sampled = await policy.generate(prompt, TOKENS, f"prompt of {len(prompt)} tokens")
        policy.release(f"prompt of {len(prompt)} tokens")
        return sampled.ids, sampled.logprobs

    async def together(prompts: Prompts) -> list[Turn]:
        return await asyncio.gather(*(turn(number, prompt) for number, prompt in enumerate(prompts)))

    played: list[list[Turn]] = []
    for version, prompts in enumerate(batches):
        if version:
            change(model)
            policy.updated(version)
        played.append(asyncio.run(together(prompts)))
    return played


def theirs(model: Any, *batches: Prompts) -> list[list[Turn]]:
    played: list[list[Turn]] = []
    with continuous_batching(model, POSITIONS) as sampler:
        for version, prompts in enumerate(batches):
            if version:
                with sampler.manager.pause():  # "typically to update it in place"
                    change(model)
            names = [sampler.add(prompt, TOKENS) for prompt in prompts]
            turns = {turn.request_id: turn for turn in (sampler.next() for _ in names)}
            played.append([(turns[name].generated_tokens, turns[name].logprobs) for name in names])
    return played


def small_model() -> Any:
    """Return the same model every time, with weights large enough to prefer some tokens."""
    shape = TinyShape(hidden=32, layers=2, heads=2, feed_forward=64, context=512)
    model = tiny_model(tiny_tokenizer(["a"], 0), shape, seed=0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(8)
    return model.eval()


def change(model: Any) -> None:
    """Change the weights, by more than a training step."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * weight.std())
