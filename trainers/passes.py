"""Forward passes of a transformers model over conversations, and the tokens drawn from their logits.

Full and sliding-window attention is computed for many conversations in one row. Other attention (chunks, sinks, soft
caps, position biases) is computed by the model itself, one conversation at a time. The states of other layers (Mamba,
linear attention, convolutions) do not belong to positions, so they cannot be reused.

A GPU computes a token of a small model faster than Python can launch the many kernels of a pass. A CUDA graph launches
them together. It is recorded for a fixed number of slots and visible positions, so all slots take part; idle slots
write to a position that is never read.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import torch

from agentgym.trainers.adapters import without_adapters
from agentgym.trainers.cache import SlotCache
from agentgym.trainers.packing import FULL, SLIDING, PackedRow, Pass, can_pack, grouped, packed, visible
from agentgym.trainers.versions import cache_argument, keeps_states

_log = logging.getLogger(__name__)
_STRIDE = 256
"""One CUDA graph is recorded per multiple of this many positions."""
_KEYS_AND_VALUES = frozenset({FULL, SLIDING, "chunked_attention"})


class SamplingWay(Enum):
    """How a model computes conversations."""

    PACKED = "packed"
    """All of them in one row; keys and values are cached."""
    ALONE = "alone"
    """One by one with the model's own attention; keys and values are cached."""
    WHOLE = "whole"
    """One by one, each from its first token on, without a cache."""


def way_of(model: Any) -> SamplingWay:
    """Return how to sample conversations from a transformers model, with or without adapters."""
    inner = without_adapters(model)
    kinds = getattr(inner.config.get_text_config(), "layer_types", None)  # a hybrid may have attention only
    has_states = not set(kinds) <= _KEYS_AND_VALUES if kinds else keeps_states(inner)
    if has_states:
        _warn_of(str(getattr(inner.config, "model_type", type(inner).__name__)))
        return SamplingWay.WHOLE
    return SamplingWay.PACKED if can_pack(model) else SamplingWay.ALONE


@lru_cache(maxsize=64)
def _warn_of(kind: str) -> None:
    """Log once per process why sampling is slow."""
    _log.warning(
        "models of type %r keep more state than keys and values, so each token is computed from the whole "
        "conversation; vllm:MODEL samples faster",
        kind,
    )


def run(model: Any, cache: SlotCache, plan: Pass, *, alone: bool = False) -> torch.Tensor:
    """Run a pass that extends a cache; return the last logits of each row, `(rows, vocabulary)`.

    Args:
        model: The model.
        cache: Its cache.
        plan: The pass.
        alone: The pass has one row, and the model uses its own attention.
    """
    cache.aim(plan, alone=alone)
    arguments = {
        "input_ids": plan.ids[None],
        "position_ids": plan.positions[None],
        **cache_argument(without_adapters(model), cache),
        "use_cache": True,
        "logits_to_keep": plan.last,
    }
    # Without a mask, a model makes its own, with the windows or chunks of its layers.
    with nullcontext() if alone else packed(model):
        return model(**arguments, **({} if alone else {"plan": plan})).logits[0]


def run_whole(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """Run a pass over a whole conversation; return its last logits, `(1, vocabulary)`."""
    whole = torch.tensor([list(ids)], device=model.device)
    return model(input_ids=whole, use_cache=False, logits_to_keep=1).logits[0, -1:]


class SteadyPlan:
    """A forward pass over one new token of each slot (`Pass`), with inputs at fixed addresses.

    Args:
        slots: Slots of the cache.
        end: Maximum number of visible positions.
        device: Where the model is.
    """

    def __init__(self, slots: int, end: int, device: torch.device):
        self._end = end
        self._inputs = torch.zeros(3, slots, dtype=torch.long, device=device)
        self.ids, self.positions, self.written = self._inputs
        self.slots = self.last = torch.arange(slots, device=device)
        self.rows: Sequence[PackedRow] = [PackedRow(0, end - 1, [0])]
        """A placeholder with the number of visible positions."""
        self._masks: dict[int | None, torch.Tensor] = {}

    def set(self, rows: Sequence[PackedRow], idle: int) -> None:
        """Set the inputs: the conversations, and the position for the writes of idle slots."""
        ids, positions, written = [0] * len(self.slots), [0] * len(self.slots), [idle] * len(self.slots)
        for row in rows:
            [ids[row.slot]] = row.pending
            positions[row.slot] = written[row.slot] = row.filled
        self._inputs.copy_(torch.tensor([ids, positions, written]))

    def forget(self) -> None:
        """Recompute masks in the next pass."""
        self._masks.clear()

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None, window: int | None
    ) -> torch.Tensor:
        """Return what each token attends to (`Pass.attend`)."""
        if window not in self._masks:
            self._masks[window] = visible(self.positions[:, None], self._end, window)
        k, v = keys[:, :, : self._end], values[:, :, : self._end]
        return grouped(query.transpose(0, 1)[:, :, None], k, v, self._masks[window], scale)[:, :, 0]


@dataclass
class _Recorded:
    plan: SteadyPlan
    graph: torch.cuda.CUDAGraph
    logits: torch.Tensor


class Replays:
    """Runs passes over conversations with one new token each, from CUDA graphs on a GPU.

    On a CPU, the same passes run unrecorded, for tests.

    Args:
        model: The model.
        cache: Its cache. Idle slots write to its last position, which no conversation fills: the last token of a turn
            is computed in the next turn, after the cache has grown.
        prepared: Prepares the model for a pass; a replay does not need it.
    """

    def __init__(self, model: Any, cache: SlotCache, prepared: Callable[[], AbstractContextManager[None]]):
        self._model, self._cache, self._prepared = model, cache, prepared
        self._size = cache.size
        self._recorded: dict[int, _Recorded] = {}
        self._pool: Any = None

    def run(self, rows: Sequence[PackedRow]) -> torch.Tensor:
        """Run a pass; return the logits of each row, `(rows, vocabulary)`.

        Raises:
            RuntimeError: The model cannot be recorded.
        """
        if self._size != self._cache.size:  # the cache has moved; a pool ends with its last graph
            self._size, self._recorded, self._pool = self._cache.size, {}, None
        slots, positions = self._size
        end = min(positions, -(-max(row.end for row in rows) // _STRIDE) * _STRIDE)
        logits = self._logits(rows, slots, end, idle=positions - 1)
        return logits[torch.tensor([row.slot for row in rows], device=logits.device)]

    def _logits(self, rows: Sequence[PackedRow], slots: int, end: int, idle: int) -> torch.Tensor:
        if (recorded := self._recorded.get(end)) is not None:
            recorded.plan.set(rows, idle)
            recorded.graph.replay()
            return recorded.logits
        plan = SteadyPlan(slots, end, self._model.device)
        plan.set(rows, idle)
        with self._prepared():
            # This pass gives the result; it also initialises libraries, which cannot be recorded.
            logits = run(self._model, self._cache, plan)
            if self._model.device.type == "cuda":
                self._recorded[end] = self._record(plan)
        return logits

    def _record(self, plan: SteadyPlan) -> _Recorded:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        plan.forget()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            logits = run(self._model, self._cache, plan)
        return _Recorded(plan, graph, logits)


def draw(
    logits: torch.Tensor, temperature: float, generators: Sequence[random.Random]
) -> tuple[list[int], list[float]]:
    """Draw a token from each row by inverting its distribution at a number from the row's own generator.

    Args:
        logits: `(rows, vocabulary)`.
        temperature: 0 takes the likeliest token.
        generators: One for each row.

    Returns:
        The tokens and their log-probabilities, which are NaN for rows with invalid logits.
    """
    logits = logits.float()
    logprobs = torch.log_softmax(logits / temperature if temperature > 0 else logits, dim=-1)
    if temperature > 0:
        points = torch.tensor([[generator.random()] for generator in generators])
        cumulative = logprobs.exp().cumsum(dim=-1)
        points = points.to(logits.device) * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, points, right=True).clamp_(max=logits.shape[-1] - 1)
    else:
        tokens = logprobs.argmax(dim=-1, keepdim=True)
    return tokens[:, 0].tolist(), logprobs.gather(1, tokens)[:, 0].tolist()
