"""The settings that an asynchronous run does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.base.errors import UsageError

LOSSES = ("dapo", "grpo", "dr_grpo")
"""The losses that are TRL's asynchronous loss with other weights of the episodes."""


def refuse_async(settings: Mapping[str, Any]) -> None:
    """Raise `UsageError` for settings that an asynchronous run does not have; by the names of `TrainConfig`."""
    for problem, is_given in _problems(settings):
        if is_given:
            raise UsageError(f"asynchronous training: {problem}")


def _problems(settings: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    loss = settings["loss"]
    yield "there is no reference model; set kl_weight: 0", settings["kl_weight"] != 0
    yield "there is no entropy bonus; set entropy_weight: 0", settings["entropy_weight"] != 0
    yield f"the loss is one of {', '.join(LOSSES)}, not {loss!r}", loss not in LOSSES
    yield "a step is one update; set updates_per_step: 1, and groups to its groups", settings["updates_per_step"] > 1
    yield "every group is learned from once; set epochs_per_step: 1", settings["epochs_per_step"] > 1
    yield "vLLM servers sample, not an engine in the trainer's process; set use_vllm: false", settings["use_vllm"]
    yield "episodes run ahead up to max_staleness; set ahead: 0", settings["ahead"] > 0
    given = ", ".join(name for name in ("trl", "vllm", "model_kwargs") if settings[name])
    yield f"no arguments are passed on to libraries; leave out {given}", bool(given)
    many = len(settings["servers"]) > 1
    yield "only adapters reach several servers; set lora_rank, or name one server", many and not settings["lora_rank"]
    yield (
        "a step's groups are sampled before the last update; set max_staleness: 1 or more",
        not settings["max_staleness"],
    )
