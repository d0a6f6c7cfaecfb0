"""The estimate of a plan as text."""

from __future__ import annotations

from agentgym.trainers.cost.estimate import (
    Plan,
    StepWork,
    cache_episodes,
    cache_memory,
    engine_memory,
    fits,
    memory_share,
    step_seconds,
    training_memory,
)
from agentgym.trainers.cost.gpus import GIB


def report(plan: Plan, episodes: StepWork, tools_s: float = 0.0) -> str:
    """Return the memory on each GPU and the seconds of a step.

    Args:
        plan: The plan.
        episodes: The episodes of a step.
        tools_s: Mean seconds that an episode waits for its environment.
    """
    rows = [*_memory_rows(plan), "", *_time_rows(plan, episodes, tools_s)]
    return "\n".join([plan.text, "", *rows, "", "Estimated from formulas; nothing here was measured on a GPU."])


def _memory_rows(plan: Plan) -> list[str]:
    memory = training_memory(plan)
    rows = [_row(f"training: {name}", size / GIB, "GiB") for name, size in vars(memory).items()]
    rows.append(_row("training: total on a GPU", memory.total / GIB, "GiB"))
    shared = plan.train_gpus is None
    share = f" ({memory_share(plan):.2f} of the GPU)" if shared else ""
    rows.append(_row("engine: weights and passes", engine_memory(plan) / GIB, "GiB"))
    rows.append(_row(f"engine: cache{share}", max(0.0, cache_memory(plan)) / GIB, "GiB"))
    rows.append(_row(f"engine: whole episodes of {plan.context:,} tokens", cache_episodes(plan), ""))
    if not fits(plan):
        rows.append(
            "It does not fit: use more GPUs, sharded weights, LoRA, a smaller micro batch or a smaller context."
        )
    return rows


def _time_rows(plan: Plan, episodes: StepWork, tools_s: float) -> list[str]:
    if not fits(plan):
        return []
    seconds = step_seconds(plan, episodes, tools_s)
    names = {"generate": "step: generate and tools", "learn": "step: learn", "sync": "step: sync and its check"}
    rows = [_row(label, getattr(seconds, name), "s") for name, label in names.items()]
    how = "the longer of sampling and learning" if seconds.overlaps else "one after the other"
    rows.append(_row(f"step: total ({how})", seconds.total, "s"))
    tokens = f"{episodes.count} episodes of {episodes.length:,} tokens"
    return [*rows, _row(f"tokens per second ({tokens})", episodes.tokens / seconds.total, "")]


def _row(name: str, value: float, unit: str) -> str:
    return f"{name:<58} {value:>9,.1f} {unit}".rstrip()
