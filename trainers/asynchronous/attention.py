"""Attention over packed conversations that share prefixes, where TRL's kernel (FlashAttention 3) is not to be had.

TRL packs conversations as a tree: each segment of a row attends to its path from the root. All functions here compute
the same as a forward pass over each conversation alone. Arguments, of `N` packed tokens and `S` segments:

- `tree_kv_index` `(K,)`: the positions of the segments' paths in the row, one path after the other;
- `tree_cu_seqlens_q`, `tree_cu_seqlens_k` `(S + 1,)`: where segments begin in the row, and paths in `tree_kv_index`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from agentgym.base.errors import UsageError

Attention = Callable[..., tuple[torch.Tensor, None]]


def attend_by_path(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    *,
    tree_kv_index: torch.Tensor,
    tree_cu_seqlens_q: torch.Tensor,
    tree_cu_seqlens_k: torch.Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention segment by segment, for CPUs.

    Args:
        module: The attention layer.
        query: `(1, heads, N, size)`.
        key: `(1, key heads, N, size)`.
        value: As `key`.
        attention_mask: Unused.
        tree_kv_index: See the module.
        tree_cu_seqlens_q: See the module.
        tree_cu_seqlens_k: See the module.
        scaling: Factor of the scores; by default `size ** -0.5`.
        sliding_window: Number of latest positions that a token sees; by default all.
        softcap: Not supported.
        options: Unused.

    Returns:
        `(1, N, heads, size)`, and `None` for the weights.

    Raises:
        UsageError: The model bounds its scores (`softcap`).
    """
    _refuse_softcap(softcap)
    begins, paths = tree_cu_seqlens_q.tolist(), tree_cu_seqlens_k.tolist()
    parts = []
    for start, end, first, last in zip(begins[:-1], begins[1:], paths[:-1], paths[1:], strict=True):
        path = tree_kv_index[first:last]
        parts.append(
            scaled_dot_product_attention(
                query[:, :, start:end],
                key[:, :, path],
                value[:, :, path],
                attn_mask=_mask(end - start, last - first, sliding_window, query.device),
                scale=scaling,
                enable_gqa=query.shape[1] != key.shape[1],
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2), None


def _mask(queries: int, keys: int, window: int | None, device: torch.device) -> torch.Tensor:
    """Return which keys the queries at the end of a path see, `(queries, keys)`."""
    before = keys - queries
    seen = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(before)
    return seen & ~seen.tril(before - window) if window else seen


def attend_by_blocks(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    *,
    tree_kv_index: torch.Tensor,
    tree_cu_seqlens_q: torch.Tensor,
    tree_cu_seqlens_k: torch.Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention with FlexAttention, which skips blocks that no token sees, for GPUs (`attend_by_path`)."""
    from torch.nn.attention.flex_attention import create_block_mask

    _refuse_softcap(softcap)
    length = query.shape[2]
    last, place = reaches(length, tree_kv_index, tree_cu_seqlens_q, tree_cu_seqlens_k)

    def sees(batch: Any, head: Any, asker: Any, other: Any) -> Any:
        seen = (other <= asker) & (asker < last[other])
        return seen & (place[asker] - place[other] < sliding_window) if sliding_window else seen

    mask = create_block_mask(sees, None, None, length, length, device=str(query.device))
    out: Any = _flex(query.is_cuda)(
        query, key, value, block_mask=mask, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
    )
    return out.transpose(1, 2), None


def reaches(
    length: int, kv_index: torch.Tensor, begins: torch.Tensor, paths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return for each packed token the end of the last segment that sees it, and its position in its conversation.

    Rows are packed depth first, so exactly the tokens from its own position to that end see it.

    Args:
        length: Number of packed tokens.
        kv_index: `tree_kv_index`.
        begins: `tree_cu_seqlens_q`.
        paths: `tree_cu_seqlens_k`.
    """
    lengths = (paths[1:] - paths[:-1]).long()
    ends = begins[1:].long().repeat_interleave(lengths)
    last = torch.zeros(length, dtype=torch.long, device=kv_index.device).scatter_reduce(0, kv_index, ends, "amax")
    places = torch.arange(len(kv_index), device=kv_index.device) - paths[:-1].long().repeat_interleave(lengths)
    return last, torch.zeros_like(last).scatter(0, kv_index, places)


@cache
def _flex(is_compiled: bool) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True) if is_compiled else flex_attention


def _refuse_softcap(softcap: float | None) -> None:
    if softcap:
        raise UsageError(
            "this model bounds its attention scores (softcap), which only FlashAttention 3 supports in an asynchronous "
            "run: install the package `kernels` on a GPU that has it, or train without --async"
        )
