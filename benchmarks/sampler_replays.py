"""Sampling in process on a GPU: recorded CUDA graphs compared with passes launched by Python.

256 conversations of three turns, with observations of up to 120 tokens between them, and a model that has the shape of
SmolLM2-135M and random weights. Needs a GPU; `--small` is a trial on a CPU that writes nothing.

    python -m benchmarks.sampler_replays
"""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agentgym.trainers.transformers_policy import Sampling, TransformersPolicy
from benchmarks._report import Claim, argument_parser, in_turns, median_ratio, write

NAME = "sampler_replays"
SHAPE = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
}
SMALL = {**SHAPE, "hidden_size": 36, "intermediate_size": 64, "num_hidden_layers": 4, "vocab_size": 300}
TURNS = 3


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a dozen conversations with a tiny model, on a CPU")
    options = parser.parse_args()
    if not options.small and not torch.cuda.is_available():
        parser.error("this needs a GPU; --small is a trial on a CPU")
    conversations, longest = (12, 40) if options.small else (256, 100)
    model: Any = _model(SMALL if options.small else SHAPE, "cpu" if options.small else "cuda")
    play(model, 12, longest, replays=False)  # libraries prepare on their first use
    contenders = [
        ({"name": name}, partial(play, model, conversations, longest, replays))
        for name, replays in (("launched", False), ("replayed", True))
    ]
    rows = list(in_turns(range(options.runs), contenders))
    if options.small:
        return
    ratio = median_ratio(rows, "replayed", "launched", rate="tokens_per_s")
    device = {"gpu": torch.cuda.get_device_name(0)}
    write(NAME, rows, [Claim(NAME, ratio, ">=", 2)], packages=("torch", "transformers"), more_versions=device)


def _model(shape: dict[str, int], device: str) -> Any:
    torch.manual_seed(0)
    model: Any = LlamaForCausalLM(LlamaConfig.from_dict({**shape, "max_position_embeddings": 4096}))
    return model.to(device, torch.bfloat16 if device == "cuda" else torch.float32).eval()


def play(model: Any, conversations: int, longest: int, replays: bool) -> dict[str, Any]:
    """Sample all conversations concurrently; return the time."""
    codec: Any = None  # all is tokens here
    policy = TransformersPolicy(
        model, codec, end_ids=[299], context=3000, slots=conversations, sampling=Sampling(), replays=replays
    )

    async def together() -> list[int]:
        return await asyncio.gather(*(converse(policy, number, longest) for number in range(conversations)))

    began = time.perf_counter()
    tokens = sum(asyncio.run(together()))
    seconds = time.perf_counter() - began
    return {"seconds": round(seconds, 2), "tokens": tokens, "tokens_per_s": round(tokens / seconds)}


async def converse(policy: TransformersPolicy, number: int, longest: int) -> int:
    """Sample a conversation of several turns; return the number of sampled tokens."""
    draw = random.Random(number)
    ids = [5] * 40 + [draw.randrange(250) for _ in range(draw.randrange(5, 300))]
    sampled = 0
    for _ in range(TURNS):
        turn = (await policy.generate(ids, draw.randrange(5, longest), f"s{number}")).ids
        sampled += len(turn)
        ids = ids + turn + [draw.randrange(250) for _ in range(draw.randrange(1, 120))]
    policy.release(f"s{number}")
    return sampled


if __name__ == "__main__":
    main()
