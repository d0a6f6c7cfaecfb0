"""Forward passes of a model of transformers over conversations, and the tokens that are drawn from their logits.

Attention to all positions before, or to a window of them, can be computed for many conversations in one row. Other
attention (chunks, sinks, soft caps, positions as biases) is computed by the model itself, one conversation at a time.
The state of other layers (Mamba, linear attention, convolutions) belongs to no position, so that it cannot be shared.

A GPU computes a token of a small model faster than Python can launch the many kernels of a pass. A CUDA graph launches
them together. It is recorded for a fixed number of slots and of positions that are seen, so all slots take part; idle
ones write where nobody reads.
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
"""There is a CUDA graph for each multiple of this many positions."""
_KEYS_AND_VALUES = frozenset({FULL, SLIDING, "chunked_attention"})


class SamplingWay(Enum):
    """How a pass computes conversations."""

    PACKED = "packed"
    """All of them in one row; their keys and values are kept."""
    ALONE = "alone"
    """One by one, as the model attends by itself; their keys and values are kept."""
    WHOLE = "whole"
    """One by one, each from its first token on; nothing is kept."""


def way_of(model: Any) -> SamplingWay:
    """Return how conversations are sampled from a model, of transformers, which may have adapters."""
    inner = without_adapters(model)
    kinds = getattr(inner.config.get_text_config(), "layer_types", None)  # a hybrid may have attention only
    has_states = not set(kinds) <= _KEYS_AND_VALUES if kinds else keeps_states(inner)
    if has_states:
        _warn_of(str(getattr(inner.config, "model_type", type(inner).__name__)))
        return SamplingWay.WHOLE
    return SamplingWay.PACKED if can_pack(model) else SamplingWay.ALONE


@lru_cache(maxsize=64)
def _warn_of(kind: str) -> None:
    """Log once a process why sampling takes so long."""
    _log.warning(
        "a model of the kind %r keeps more of a conversation than keys and values, so each token is computed from the "
        "whole conversation; vllm:MODEL samples faster",
        kind,
    )


def run(model: Any, cache: SlotCache, plan: Pass, *, alone: bool = False) -> torch.Tensor:
    """Run a pass that continues what a cache holds; return the last logits of each row, `(rows, vocabulary)`.

    Args:
        model: The model.
        cache: Its cache.
        plan: The pass.
        alone: It has one row, and the model attends to it by itself.
    """
    cache.aim(plan, alone=alone)
    arguments = {
        "input_ids": plan.ids[None],
        "position_ids": plan.positions[None],
        **cache_argument(without_adapters(model), cache),
        "use_cache": True,
        "logits_to_keep": plan.last,
    }
    # Without a mask from here, a model makes its own: of windows, chunks or whatever else its layers see.
    with nullcontext() if alone else packed(model):
        return model(**arguments, **({} if alone else {"plan": plan})).logits[0]


def run_whole(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """Run a pass over a whole conversation; return its last logits, `(1, vocabulary)`."""
    whole = torch.tensor([list(ids)], device=model.device)
    return model(input_ids=whole, use_cache=False, logits_to_keep=1).logits[0, -1:]


class SteadyPlan:
    """A forward pass over one new token of each slot (`Pass`), with inputs that stay where they are.

    Args:
        slots: Slots of the cache.
        end: How many positions are seen, at most.
        device: Where the model is.
    """

    def __init__(self, slots: int, end: int, device: torch.device):
        self._end = end
        self._inputs = torch.zeros(3, slots, dtype=torch.long, device=device)
        self.ids, self.positions, self.written = self._inputs
        self.slots = self.last = torch.arange(slots, device=device)
        self.rows: Sequence[PackedRow] = [PackedRow(0, end - 1, [0])]
        """A stand-in that says how much is seen."""
        self._masks: dict[int | None, torch.Tensor] = {}

    def set(self, rows: Sequence[PackedRow], idle: int) -> None:
        """Set the inputs: the conversations, and the position to which idle slots write."""
        ids, positions, written = [0] * len(self.slots), [0] * len(self.slots), [idle] * len(self.slots)
        for row in rows:
            [ids[row.slot]] = row.pending
            positions[row.slot] = written[row.slot] = row.filled
        self._inputs.copy_(torch.tensor([ids, positions, written]))

    def forget(self) -> None:
        """Compute masks anew, as a part of the next pass."""
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
    """Runs passes over conversations that have one new token each, from graphs on a GPU.

    On a CPU, the same passes run without being recorded, which is of use to tests only.

    Args:
        model: The model.
        cache: Its cache. No conversation may fill its last position, to which idle slots write: the last token of a
            turn is in no pass before the next turn, for which the cache is made longer.
        prepared: Makes the model ready for a pass; a replay needs none of it.
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
        if self._size != self._cache.size:  # the cache has moved, and a pool ends with the last of its graphs
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
            # What libraries prepare on their first use cannot be recorded; and this is the pass that was asked for.
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
    """Draw a token from each row: invert its distribution at a number from the row's own generator.

    Args:
        logits: `(rows, vocabulary)`.
        temperature: 0 takes the likeliest token.
        generators: One for each row.

    Returns:
        The tokens and their log-probabilities, NaN where a row's are not numbers.
    """
    logits = logits.float()
    logprobs = torch.log_softmax(logits / temperature if temperature > 0 else logits, dim=-1)
    if temperature > 0:
        points = torch.tensor([[generator.random()] for generator in generators])
        cumulative = logprobs.exp().cumsum(dim=-1)
        points = points.to(logits.device) * cumulative[:, -1:]
        chosen = torch.searchsorted(cumulative, points, right=True).clamp_(max=logits.shape[-1] - 1)
    else:
        chosen = logprobs.argmax(dim=-1, keepdim=True)
    return chosen[:, 0].tolist(), logprobs.gather(1, chosen)[:, 0].tolist()
