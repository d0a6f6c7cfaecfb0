"""Packs the tokens of many conversations into one row for a forward pass, so that nothing but attention is padded.

Linear layers see each token once. Attention (`attend`) reads keys and values where the cache keeps them: what is short
(a sampled token, an observation) is padded and done together; what is long is done by itself, without padding or mask.
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

ATTENTION = "agentgym_packed"
"""The name of `attend` in the configuration of a model."""

FULL, SLIDING = "full_attention", "sliding_attention"
"""Kinds of layers that can be packed, as configurations call them."""

_SHORT = 32
"""Up to this many new tokens of a conversation are worth padding."""
_SHORT_ON_GPU, _PADDED_ON_GPU = 256, 16_384
"""On a GPU, which computes padding faster than it is told of another conversation: likewise, and how many tokens all
conversations of a pass may be padded to, which takes memory."""


class CannotPack(Exception):
    """The model's attention has an argument that `attend` does not know."""


@dataclass(frozen=True)
class PackedRow:
    """One conversation in a forward pass."""

    slot: int
    filled: int
    """Positions of the slot that are known already."""
    pending: Sequence[int]
    """The ids that follow them."""

    @property
    def end(self) -> int:
        """Positions that are known after the pass."""
        return self.filled + len(self.pending)


class Pass(Protocol):
    """What a model and its cache have to know of a forward pass over some conversations."""

    ids: torch.Tensor
    """The new tokens of all rows, one after the other."""
    positions: torch.Tensor
    """The position of each in its conversation."""
    slots: torch.Tensor
    """The slot of each."""
    written: torch.Tensor
    """The position in its slot to which the keys and values of each go."""
    last: torch.Tensor
    """Where the last token of each row is."""
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
            window: How many positions a token sees, with its own; `None` means all.

        Returns:
            `(tokens, heads, size)`.
        """
        ...


class PackedPlan:
    """A forward pass over some conversations.

    Args:
        rows: The conversations; each slot at most once.
        device: Where the model is.
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
        # The first slots in order are a view of the cache. If most of them take part, idle ones do too: copying would
        # cost more.
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
        seen = slice(self._height) if self._is_view else self._slots
        if window not in self._masks:
            self._masks[window] = visible(self._positions, self._end, window)
        k, v = keys[seen, :, : self._end], values[seen, :, : self._end]
        return grouped(q, k, v, self._masks[window], scale)[self._row, :, self._column]


def visible(positions: torch.Tensor, end: int, window: int | None) -> torch.Tensor:
    """Return which of the first `end` positions each token sees, `(rows, 1, tokens, end)`."""
    columns = torch.arange(end, device=positions.device)
    seen = columns <= positions[:, :, None]
    if window is not None:
        seen &= columns > positions[:, :, None] - window
    return seen[:, None]


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Attend with a mask. Heads that share keys are rows of one head, so that keys need not be repeated."""
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
    """Attend as a `PackedPlan` says: an attention function of transformers. `key` and `value` are the cache."""
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
    if sliding_window is None and _kind_of(module) == SLIDING:
        unknown.append("a window that only its mask has")  # there is no mask
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
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before


def can_pack(model: Any) -> bool:
    """Whether a model lets others attend for it, to positions that a `PackedPlan` can tell."""
    inner = without_adapters(model)
    return bool(getattr(inner, "_supports_attention_backend", False)) and kinds_of(inner.config) <= {FULL, SLIDING}


def kinds_of(config: Any) -> set[str]:
    """Return the kinds of a model's layers, by its configuration; `FULL` if that does not say."""
    return set(getattr(config.get_text_config(), "layer_types", None) or [FULL])
