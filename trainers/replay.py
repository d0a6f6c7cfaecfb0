"""Passes over the next token of all conversations, recorded as CUDA graphs and replayed.

A GPU computes a token of a small model faster than Python can launch the many kernels of a pass. A graph launches them
together. It is recorded for a fixed number of slots and of positions that are seen, so all slots take part; idle ones
write where nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from agentgym.trainers.packing import Row, grouped, visible
from agentgym.trainers.passes import run
from agentgym.trainers.slots import SlotCache

_STRIDE = 256
"""There is a graph for each multiple of this many positions."""


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
        self.rows: Sequence[Row] = [Row(0, end - 1, [0])]
        """A stand-in that says how much is seen."""
        self._masks: dict[int | None, torch.Tensor] = {}

    def set(self, rows: Sequence[Row], idle: int) -> None:
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

    def run(self, rows: Sequence[Row]) -> torch.Tensor:
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

    def _logits(self, rows: Sequence[Row], slots: int, end: int, idle: int) -> torch.Tensor:
        if (known := self._recorded.get(end)) is not None:
            known.plan.set(rows, idle)
            known.graph.replay()
            return known.logits
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
