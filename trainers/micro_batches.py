"""Divides a batch among its updates and their passes through the model, with little padding.

Rows of similar length share a pass, which is as wide as its longest row. Rows that change no gradient are left out.
Every process runs the same number of passes, as gradients are exchanged in them: one without rows runs a filler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

TensorBatch = dict[str, Any]
"""Tensors of a batch, `(rows, ...)`, `(rows, prompt tokens)` if named `prompt_...`, or `(rows, completion tokens)`."""

_BY_ROW = frozenset({"grpo", "sapo", "luspo", "dr_grpo"})
"""Losses that are means over the rows of a micro-batch in TRL."""
_BY_TOKEN = frozenset({"bnpo"})
"""Losses that are means over the tokens of a micro-batch in TRL."""


@dataclass(frozen=True)
class UpdateTotals:
    """The rows and tokens that carry loss in an update, of all processes.

    Groups without a difference count, as they do in TRL, though no pass computes them.
    """

    rows: int
    tokens: int

    def share(self, loss: str, mask: torch.Tensor) -> torch.Tensor | float | None:
        """Return the weight of a micro-batch's mean in the mean over the update; `None` if TRL's loss is exact.

        Args:
            loss: TRL's loss type.
            mask: `(rows, completion tokens)`: 1 at tokens of the micro-batch that carry loss.
        """
        if loss in _BY_ROW:
            return len(mask) / max(1, self.rows)
        return mask.sum().clamp(min=1) / max(1, self.tokens) if loss in _BY_TOKEN else None


def loss_mask(batch: TensorBatch) -> torch.Tensor:
    """Return the mask of a batch, `(rows, completion tokens)`: 1 at tokens that carry loss."""
    return batch["completion_mask"] * batch["tool_mask"]


def micro_batches(
    batch: TensorBatch, updates: Sequence[Sequence[int]], passes: int, total: Callable[[torch.Tensor], torch.Tensor]
) -> list[TensorBatch]:
    """Return the micro-batches of a batch, `passes` for each update.

    Each has two more entries: `totals`, of its update, and `is_idle`, whether no process has a row for it.

    Args:
        batch: Its tensors; `needed` is true for rows that a pass must compute, `(rows)`.
        updates: The rows of each update.
        passes: Passes of an update.
        total: Adds up tensors of all processes.
    """
    mask = loss_mask(batch)
    needed = set(batch["needed"].nonzero()[:, 0].tolist())
    parts = [divided(lengths(batch), [row for row in rows if row in needed], passes) for rows in updates]
    counts = [
        [int(mask[list(rows)].any(dim=1).sum()), int(mask[list(rows)].sum()), *map(len, own)]
        for rows, own in zip(updates, parts, strict=True)
    ]
    sums = total(torch.tensor(counts, device=mask.device)).tolist()
    return [
        {**taken(batch, rows), "totals": UpdateTotals(rows_of, tokens), "is_idle": not size}
        for own, (rows_of, tokens, *sizes) in zip(parts, sums, strict=True)
        for rows, size in zip(own, sizes, strict=True)
    ]


def lengths(batch: TensorBatch) -> list[int]:
    """Return the tokens of each row."""
    return (batch["prompt_mask"].sum(dim=1) + batch["completion_mask"].sum(dim=1)).tolist()


def divided(sizes: Sequence[int], rows: Sequence[int], parts: int) -> list[list[int]]:
    """Divide rows into parts with the least padding, the longest rows first; the last parts may be empty.

    A part takes at most as many positions as an equal share of the rows, all as long as the longest.

    Args:
        sizes: Tokens of each row of the batch.
        rows: The rows to divide.
        parts: The number of parts.
    """
    order = sorted(rows, key=lambda row: -sizes[row])
    count, width = len(order), np.array([sizes[row] for row in order])
    if not count:
        return [[] for _ in range(parts)]
    begin, end = np.arange(count)[:, None], np.arange(count + 1)[None]
    cost = (end - begin) * width[:, None] + 0.0
    cost[(end < begin) | (cost > -(-count // parts) * width[0])] = np.inf
    least = np.full(count + 1, np.inf)
    least[0], begins = 0.0, []
    for _ in range(parts):
        sums = least[:count, None] + cost
        begins.append(sums.argmin(axis=0))
        least = sums.min(axis=0)
    divisions, high = [], count
    for row in reversed(begins):
        low = int(row[high])
        divisions.append(order[low:high])
        high = low
    return [part for part in reversed(divisions) if part] + [part for part in divisions if not part]


def taken(batch: TensorBatch, rows: Sequence[int]) -> TensorBatch:
    """Return rows of a batch without columns of padding; without rows, a filler of two tokens that carries no loss."""
    if not rows:
        return _filler(batch)
    part = {name: value[list(rows)] if _has_rows(value) else value for name, value in batch.items()}
    before, after = (int(part[f"{side}_mask"].sum(dim=1).max()) for side in ("prompt", "completion"))
    for name, value in part.items():
        if _has_rows(value) and value.dim() == 2:
            part[name] = value[:, -before:] if name.startswith("prompt_") else value[:, :after]
    return part


def _filler(batch: TensorBatch) -> TensorBatch:
    tensors = {name: value for name, value in batch.items() if _has_rows(value)}
    empty = {
        name: torch.zeros_like(value[:1, :1] if value.dim() == 2 else value[:1]) for name, value in tensors.items()
    }
    return {**batch, **empty, "prompt_mask": torch.ones_like(empty["prompt_mask"])}


def scored(
    batch: TensorBatch, needed: Sequence[int], passes: int, score: Callable[[TensorBatch], torch.Tensor]
) -> torch.Tensor:
    """Return scores of a batch, `(rows, completion tokens)`, which are NaN in rows that are not needed.

    Args:
        batch: Its tensors.
        needed: The rows to score.
        passes: The number of calls of `score`.
        score: Returns the scores of some rows, `(rows, completion tokens)`.
    """
    scores = torch.full(batch["completion_ids"].shape, math.nan, device=batch["completion_ids"].device)
    for rows in divided(lengths(batch), needed, passes):
        own = score(taken(batch, rows))
        if rows:
            scores[rows] = 0.0
            scores[rows, : own.shape[1]] = own
    return scores


def _has_rows(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 0
