#!/usr/bin/env python3
"""Estimate memory and seconds per step of a training on GPUs: scripts/cost_model.py Qwen/Qwen3-8B --gpus 8 --lora 32.

The formulas are in `trainers/cost/estimate.py`. Nothing of this was measured on a GPU.
"""

from __future__ import annotations

import argparse
import sys

from agentgym.base.errors import UsageError
from agentgym.trainers.cost.estimate import Plan, StepWork
from agentgym.trainers.cost.gpus import GPUS, gpu_named
from agentgym.trainers.cost.report import report
from agentgym.trainers.cost.shapes import published, shape_named


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    arguments.add_argument("model", help=f"one of {', '.join(name.rpartition('/')[2] for name in published())}")
    arguments.add_argument("--gpus", type=int, default=1, help="GPUs of all machines")
    arguments.add_argument("--train-gpus", type=int, help="GPUs that train while the others sample")
    arguments.add_argument("--gpu", default="h100", help=f"one of {', '.join(GPUS)}")
    arguments.add_argument("--lora", type=int, default=0, metavar="RANK", help="rank of adapters; 0 trains all weights")
    arguments.add_argument("--sharded", action="store_true", help="share the weights among the training GPUs")
    arguments.add_argument("--no-checkpointing", action="store_true", help="keep all activations")
    arguments.add_argument("--tensor-parallel", type=int, default=1, help="GPUs of one engine")
    arguments.add_argument("--micro-batch", type=int, default=1, help="rows of a pass")
    arguments.add_argument("--context", type=int, default=8192, help="tokens of the longest episode")
    arguments.add_argument("--updates", type=int, default=2, help="updates of the weights in a step")
    arguments.add_argument("--padding", type=float, default=1.7, help="computed positions for each token")
    arguments.add_argument("--episodes", type=int, default=256, help="episodes of a step")
    arguments.add_argument("--prompt", type=int, default=1000, help="tokens of a prompt")
    arguments.add_argument("--turns", type=int, default=8, help="turns of an episode")
    arguments.add_argument("--sampled", type=int, default=400, help="sampled tokens of a turn")
    arguments.add_argument("--observed", type=int, default=200, help="tokens of the answer to a turn")
    arguments.add_argument("--tools", type=float, default=0.0, help="seconds that an episode waits for its environment")
    return arguments


def main(words: list[str] | None = None) -> None:
    """Print the estimate."""
    options = parser().parse_args(words)
    if not 0 < (options.train_gpus or 1) <= options.gpus or options.train_gpus == options.gpus:
        raise UsageError("--train-gpus must leave at least one of --gpus for sampling")
    plan = Plan(
        shape=shape_named(options.model),
        gpu=gpu_named(options.gpu),
        gpus=options.gpus,
        train_gpus=options.train_gpus,
        lora_rank=options.lora,
        micro_batch=options.micro_batch,
        context=options.context,
        checkpointing=not options.no_checkpointing,
        sharded=options.sharded,
        tensor_parallel=options.tensor_parallel,
        updates=options.updates,
        padding=options.padding,
    )
    episodes = StepWork(options.episodes, options.prompt, options.turns, options.sampled, options.observed)
    print(report(plan, episodes, options.tools))


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        sys.exit(f"Error: {error}")
