"""Memory and seconds of a training step, from the shape of the model and the work of a step.

Sizes are exact; the shares of peak speeds (`Efficiency`) are assumptions, since no part of this was measured on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.base.choices import count_of
from agentgym.trainers.cost.gpus import GIB, Gpu
from agentgym.trainers.cost.shapes import ModelShape

_RESERVED = 2.0 * GIB
"""Bytes of the driver's context, libraries and fragments, on each GPU."""
_ENGINE_RESERVED = 2.0 * GIB
"""Bytes that an engine needs for its own passes, besides weights and cache."""


@dataclass(frozen=True)
class StepWork:
    """The episodes of a step."""

    count: int = 256
    prompt: int = 1000
    """Tokens before the first turn."""
    turns: int = 8
    sampled: int = 400
    """Tokens of the model in a turn."""
    observed: int = 200
    """Tokens of the answer to a turn."""

    @property
    def length(self) -> int:
        """Tokens of a whole episode."""
        return self.prompt + self.turns * (self.sampled + self.observed)

    @property
    def tokens(self) -> int:
        """Tokens of all episodes."""
        return self.count * self.length


@dataclass(frozen=True)
class Plan:
    """How a training is spread over GPUs."""

    shape: ModelShape
    gpu: Gpu
    gpus: int = 1
    train_gpus: int | None = None
    """GPUs that train while the others sample; `None` trains and samples on all of them in turns."""
    lora_rank: int = 0
    micro_batch: int = 4
    """Rows in a forward pass."""
    context: int = 8192
    checkpointing: bool = True
    sharded: bool = False
    """Whether the training GPUs share the weights (FSDP2, ZeRO-3), instead of each holding all."""
    tensor_parallel: int = 1
    """GPUs of one sampling engine."""
    updates: int = 2
    """Updates of the weights in a step."""
    copies: int = 0
    """Whole float32 copies of the starting weights, for the KL divergence."""
    padding: float = 1.7
    """Computed positions for each token of an episode in learning."""

    @property
    def text(self) -> str:
        """The plan in a few words."""
        kind = f"LoRA of rank {self.lora_rank}" if self.lora_rank else "all weights"
        how = f"{self.gpus} GPUs, " if self.gpus > 1 else "1 GPU, "
        if self.train_gpus is not None:
            how = f"{self.learners} GPUs that train and {self.samplers} that sample, "
        parts = " sharded," if self.sharded else ""
        rows = f"{count_of(self.micro_batch, 'row')} of {self.context:,} tokens in a pass"
        return f"{self.shape.weights / 1e9:.2f} billion weights, {kind},{parts} {how}{rows}"

    @property
    def learners(self) -> int:
        """GPUs that train."""
        return self.train_gpus or self.gpus

    @property
    def samplers(self) -> int:
        """GPUs that sample."""
        return self.gpus if self.train_gpus is None else self.gpus - self.train_gpus


@dataclass(frozen=True)
class Efficiency:
    """Reached shares of peak speeds. Assumed, not measured."""

    learning: float = 0.4
    prefill: float = 0.5
    decoding: float = 0.6
    """Of the memory's bandwidth."""
    transfer: float = 2e9
    """Bytes per second in which new weights reach an engine, checks included."""
    slowest: float = 2.0
    """The time of the slowest episode of a step by that of the mean one, if a step waits for it."""


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU that trains."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    reserved: float = _RESERVED

    @property
    def total(self) -> float:
        """All bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.reserved


def layer_activations(shape: ModelShape, *, lora: bool) -> int:
    """Return the bytes that the backward pass of a layer needs for each token, under bfloat16 autocast.

    Measured by the tensors that autograd saves for Qwen3 in transformers (`tests/trainers/test_cost.py`). Weights are
    float32 without LoRA and bfloat16 with it, and so are the hidden states.
    """
    of_hidden, of_keys = (18, 8) if lora else (26, 10)
    return of_hidden * shape.hidden + 10 * shape.queries + of_keys * shape.keys + 8 * shape.feed_forward


def training_memory(plan: Plan) -> Memory:
    """Return the memory of a GPU that trains.

    LoRA: weights in bfloat16, adapters with gradients and two moments in float32. Otherwise weights, gradients and two
    moments in float32, and a copy of the weights in bfloat16, of all layers or, if they are sharded, of one layer and
    the embedding. The head computes no logits (TRL's fused head).
    """
    shape, parts = plan.shape, plan.learners if plan.sharded else 1
    trained = shape.lora_weights(plan.lora_rank) if plan.lora_rank else shape.weights
    gathered = 2 * (shape.linear_weights + shape.vocabulary * shape.hidden) if parts > 1 else 0
    if plan.lora_rank:
        weights = (2 * shape.weights + 4 * trained) / parts + gathered
    else:
        weights = 4 * shape.weights / parts + (gathered or 2 * shape.weights)
    weights += 4 * shape.weights * plan.copies
    tokens = plan.micro_batch * plan.context
    layer = layer_activations(shape, lora=bool(plan.lora_rank))
    between = (2 if plan.lora_rank else 4) * shape.hidden
    per_token = shape.layers * between + layer if plan.checkpointing else shape.layers * layer
    return Memory(weights, 4 * trained / parts, 8 * trained / parts, tokens * per_token)


def engine_memory(plan: Plan) -> float:
    """Return the bytes of an engine on each of its GPUs, without the cache."""
    return 2 * plan.shape.weights / plan.tensor_parallel + _ENGINE_RESERVED


def cache_memory(plan: Plan, *, share: float | None = None) -> float:
    """Return the bytes of the cache on a GPU that samples; negative if nothing is left.

    Args:
        plan: The plan.
        share: Share of the memory for the engine; by default, what training leaves.
    """
    if share is None:
        share = memory_share(plan) if plan.train_gpus is None else 0.9
    return share * plan.gpu.memory - engine_memory(plan)


def cache_episodes(plan: Plan, *, share: float | None = None) -> float:
    """Return the number of episodes of the whole context in the caches of all engines."""
    per_token = plan.shape.cache_bytes() / plan.tensor_parallel
    engines = plan.samplers // plan.tensor_parallel
    return engines * max(0.0, cache_memory(plan, share=share)) / (per_token * plan.context)


_LEAST_SHARE, _MOST_SHARE = 0.2, 0.85


def memory_share(plan: Plan) -> float:
    """Return the share of memory for an engine in a training process: what training leaves, with a tenth in reserve."""
    free_share = 1 - 1.1 * training_memory(plan).total / plan.gpu.memory
    return round(min(_MOST_SHARE, max(_LEAST_SHARE, free_share)), 2)


def fits(plan: Plan) -> bool:
    """Whether training fits on its GPUs, and the cache of each engine holds an episode."""
    free = plan.gpu.memory - 1.1 * training_memory(plan).total
    engines = max(1, plan.samplers // plan.tensor_parallel)
    return free > 0 and plan.samplers >= plan.tensor_parallel and cache_episodes(plan) / engines >= 1


@dataclass(frozen=True)
class Seconds:
    """The seconds of a step."""

    generate: float
    learn: float
    sync: float
    overlaps: bool
    """Whether sampling and learning run at the same time."""

    @property
    def total(self) -> float:
        """The seconds of a step."""
        work = max(self.generate, self.learn) if self.overlaps else self.generate + self.learn
        return work + self.sync


def step_seconds(plan: Plan, episodes: StepWork, tools_s: float = 0.0, efficiency: Efficiency | None = None) -> Seconds:
    """Return the seconds of a step.

    Args:
        plan: The plan.
        episodes: The work.
        tools_s: Mean seconds that an episode waits for its environment.
        efficiency: Reached shares of peak speeds.
    """
    reached = efficiency or Efficiency()
    sync_s = 2 * plan.shape.weights / reached.transfer
    learn_s = _learn_seconds(plan, episodes, reached)
    slowest = 1.0 if plan.train_gpus else reached.slowest
    generate_s = slowest * (_decode_seconds(plan, episodes, reached) + tools_s) + _prefill_seconds(
        plan, episodes, reached
    )
    return Seconds(generate_s, learn_s, sync_s, plan.train_gpus is not None)


def _learn_seconds(plan: Plan, episodes: StepWork, reached: Efficiency) -> float:
    """Return the seconds of learning; several updates need the log-probabilities of one more forward pass."""
    attended = episodes.length / 2
    forward = plan.shape.forward_flops(attended)
    flops = plan.shape.learning_flops(attended, plan.lora_rank)
    flops += forward * ((plan.updates > 1) + plan.checkpointing)
    return plan.padding * episodes.tokens * flops / (plan.learners * plan.gpu.flops * reached.learning)


def _prefill_seconds(plan: Plan, episodes: StepWork, reached: Efficiency) -> float:
    """Return the seconds for prompts and observations; the cache holds what comes before."""
    tokens = episodes.count * (episodes.prompt + episodes.turns * episodes.observed)
    flops = tokens * plan.shape.forward_flops(episodes.length / 2)
    return flops / (plan.samplers * plan.gpu.flops * reached.prefill)


def _decode_seconds(plan: Plan, episodes: StepWork, reached: Efficiency) -> float:
    """Return the seconds for the sampled tokens of mean episodes, as many at once as the cache holds.

    Each pass reads all weights once, and the cache of every conversation.
    """
    engines = max(1, plan.samplers // plan.tensor_parallel)
    share = episodes.count / engines
    held = cache_episodes(plan) / engines * plan.context / episodes.length
    at_once = min(share, max(1.0, held))
    passes = episodes.turns * episodes.sampled * share / at_once
    read = 2 * plan.shape.weights + at_once * plan.shape.cache_bytes() * episodes.length / 2
    bandwidth = plan.tensor_parallel * plan.gpu.bandwidth * reached.decoding
    flops = at_once * plan.shape.forward_flops(episodes.length / 2)
    speed = plan.tensor_parallel * plan.gpu.flops * reached.prefill
    return passes * max(read / bandwidth, flops / speed)
