"""Packs the tokens of many conversations into one row for a forward pass, so that only attention needs padding.

Linear layers process each token once. Attention (`attend`) reads keys and values in place from the cache: short inputs
(a sampled token, an observation) are padded and computed together, long inputs alone, without padding or mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from agentgym.trainers.adapters import without_adapters
from agentgym.trainers.versions import accepts_attention, attention_set

ATTENTION = "agentgym_packed"
"""The name of `attend` in the configuration of a model."""

FULL, SLIDING = "full_attention", "sliding_attention"
"""Kinds of layers that can be packed, as named in configurations."""

_SHORT = 32
"""A conversation with up to this many new tokens is padded."""
_SHORT_ON_GPU, _PADDED_ON_GPU = 256, 16_384
"""The same on a GPU, where padding costs less than another kernel launch, and the limit of padded tokens per pass."""


class CannotPack(Exception):
    """The model's attention has an argument that `attend` does not support."""


@dataclass(frozen=True)
class PackedRow:
    """One conversation in a forward pass."""

    slot: int
    filled: int
    """Positions of the slot that are already computed."""
    pending: Sequence[int]
    """The ids that follow them."""

    @property
    def end(self) -> int:
        """Computed positions after the pass."""
        return self.filled + len(self.pending)


class Pass(Protocol):
    """A forward pass over some conversations, as seen by the model and its cache."""

    ids: torch.Tensor
    """The new tokens of all rows, one after the other."""
    positions: torch.Tensor
    """The position of each in its conversation."""
    slots: torch.Tensor
    """The slot of each."""
    written: torch.Tensor
    """The position in its slot for the keys and values of each."""
    last: torch.Tensor
    """Index of the last token of each row."""
    rows: Sequence[PackedRow]
    """The conversations, in the order of their tokens."""

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None, window: int | None
    ) -> torch.Tensor:
        """Return what each token attends to.

        Args:
            query: `(heads, tokens, size)`.
            keys: The cache, `(slots, key heads, positions, size)`.
            values: Likewise.
            scale: Factor on the scores.
            window: Number of positions that a token sees, including its own; `None` means all.

        Returns:
            `(tokens, heads, size)`.
        """
        ...


class PackedPlan:
    """A forward pass over some conversations.

    Args:
        rows: The conversations; each slot at most once.
        device: The model's device.
    """

    def __init__(self, rows: Sequence[PackedRow], device: torch.device):
        limit = min(_SHORT_ON_GPU, _PADDED_ON_GPU // len(rows)) if device.type == "cuda" else _SHORT
        ones = [row for row in rows if len(row.pending) == 1]
        short = [row for row in rows if 1 < len(row.pending) <= limit and row.filled]
        done = {row.slot for row in (*ones, *short)}
        long = [row for row in rows if row.slot not in done]
        self.rows: Sequence[PackedRow] = [*ones, *short, *long]
        lengths = torch.tensor([len(row.pending) for row in self.rows])
        last = lengths.cumsum(0) - 1
        self.ids = torch.tensor([token for row in self.rows for token in row.pending], device=device)
        self.positions = torch.tensor([at for row in self.rows for at in range(row.filled, row.end)], device=device)
        self.slots = torch.tensor([row.slot for row in self.rows]).repeat_interleave(lengths).to(device)
        self.written = self.positions
        self.last = last.to(device)
        self._parts: list[_Block | _Chunk] = []
        starts = dict(zip((row.slot for row in self.rows), (last - lengths + 1).tolist(), strict=True))
        for block in (ones, short):
            if block:
                self._parts.append(_Block(block, starts[block[0].slot], device))
        self._parts += [_Chunk(row, starts[row.slot], device) for row in long]

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None, window: int | None
    ) -> torch.Tensor:
        """Return what each token attends to (`Pass.attend`)."""
        return torch.cat([part.attend(query, keys, values, scale, window) for part in self._parts])


class _Chunk:
    """A conversation by itself."""

    def __init__(self, row: PackedRow, start: int, device: torch.device):
        self._row, self._tokens = row, slice(start, start + len(row.pending))
        self._device = device

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None, window: int | None
    ) -> torch.Tensor:
        row = self._row
        q = query[None, :, self._tokens]
        k, v = keys[row.slot, None, :, : row.end], values[row.slot, None, :, : row.end]
        if row.filled == 0 and (window is None or row.end <= window):
            out = scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
            )
        else:
            positions = torch.arange(row.filled, row.end, device=self._device)[None]
            out = grouped(q, k, v, visible(positions, row.end, window), scale)
        return out[0].transpose(0, 1)


class _Block:
    """Conversations side by side, padded to the longest."""

    def __init__(self, rows: Sequence[PackedRow], start: int, device: torch.device):
        slots, lengths = [row.slot for row in rows], [len(row.pending) for row in rows]
        span = max(slots) + 1
        # The first slots in order are a view of the cache. If most of them take part, idle slots are computed too,
        # since copying would cost more.
        self._is_view = 2 * len(rows) >= span
        places = slots if self._is_view else list(range(len(rows)))
        self._height, self._width = span if self._is_view else len(rows), max(lengths)
        self._end = max(row.end for row in rows)
        self._tokens = slice(start, start + sum(lengths))
        self._slots = torch.tensor(slots, device=device)
        self._row = torch.tensor([p for p, n in zip(places, lengths, strict=True) for _ in range(n)], device=device)
        self._column = torch.tensor([column for n in lengths for column in range(n)], device=device)
        filled = torch.tensor([at for row in rows for at in range(row.filled, row.end)], device=device)
        # Padding and idle rows see the first position, so that their scores are numbers.
        self._positions = torch.zeros(self._height, self._width, dtype=torch.long, device=device)
        self._positions[self._row, self._column] = filled
        self._masks: dict[int | None, torch.Tensor] = {}

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None, window: int | None
    ) -> torch.Tensor:
        q = query.new_zeros(self._height, query.shape[0], self._width, query.shape[-1])
        q[self._row, :, self._column] = query[:, self._tokens].transpose(0, 1)
        cache_rows = slice(self._height) if self._is_view else self._slots
        if window not in self._masks:
            self._masks[window] = visible(self._positions, self._end, window)
        k, v = keys[cache_rows, :, : self._end], values[cache_rows, :, : self._end]
        return grouped(q, k, v, self._masks[window], scale)[self._row, :, self._column]


def visible(positions: torch.Tensor, end: int, window: int | None) -> torch.Tensor:
    """Return a mask of the first `end` positions that each token sees, `(rows, 1, tokens, end)`."""
    columns = torch.arange(end, device=positions.device)
    visible_columns = columns <= positions[:, :, None]
    if window is not None:
        visible_columns &= columns > positions[:, :, None] - window
    return visible_columns[:, None]


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Attend with a mask. Heads that share keys are folded into one head, so that keys are not repeated."""
    rows, heads, tokens, size = q.shape
    sharing = heads // k.shape[1]
    folded = q.reshape(rows, k.shape[1], sharing * tokens, size)
    out = scaled_dot_product_attention(folded, k, v, attn_mask=mask.repeat(1, 1, sharing, 1), scale=scale)
    return out.reshape(rows, heads, tokens, -1)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    plan: Pass | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention function for transformers that follows a `PackedPlan`. `key` and `value` are the cache."""
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
    if sliding_window is None and _kind_of(module) == SLIDING:
        unknown.append("a window that is only in its mask")  # this function has no mask
    if plan is None or unknown:
        raise CannotPack(f"attention with {', '.join(unknown) or 'no plan'}")
    return plan.attend(query[0], key, value, scaling, sliding_window)[None], None


def _kind_of(module: torch.nn.Module) -> str:
    kinds: Any = getattr(getattr(module, "config", None), "layer_types", None) or ()
    layer: Any = getattr(module, "layer_idx", None)
    return kinds[layer] if isinstance(layer, int) and layer < len(kinds) else FULL


AttentionInterface.register(ATTENTION, attend)


@contextmanager
def packed(model: Any) -> Iterator[None]:
    """Let a model attend with `attend`."""
    with attention_set(model.config, ATTENTION):
        yield


def can_pack(model: Any) -> bool:
    """Whether a model accepts external attention functions, and its layers attend as a `PackedPlan` can."""
    inner = without_adapters(model)
    return accepts_attention(inner) and kinds_of(inner.config) <= {FULL, SLIDING}


def kinds_of(config: Any) -> set[str]:
    """Return the kinds of a model's layers from its configuration; `FULL` by default."""
    return set(getattr(config.get_text_config(), "layer_types", None) or [FULL])
