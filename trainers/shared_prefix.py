"""Computes the common prefix of a training batch once, such as a system prompt, and drops padding on both sides.

Conversations of one environment share a prefix of a hundred tokens or more. The gradient is the same: all rows share
the keys and values of the prefix, which accumulate the gradients of all rows.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutputWithPast

from agentgym.trainers import ranks
from agentgym.trainers.adapters import without_adapters
from agentgym.trainers.packing import FULL, kinds_of
from agentgym.trainers.passes import SamplingWay, way_of
from agentgym.trainers.versions import cache_argument

_WORTH_SHARING = 32
"""Sharing a prefix of fewer tokens costs more than it saves."""


def share_prefixes(model: Any) -> None:
    """Make a model compute the common prefix of a batch once, if its attention allows it.

    Affects only passes without a cache, as in training. Does nothing with gradient checkpointing, which keeps no keys
    to share, or with several processes, since sharded weights expect a single pass.
    """
    inner = without_adapters(model)
    backbone = inner.base_model
    if ranks.world_size() > 1 or not _attends_to_all(inner) or hasattr(backbone, "forward_alone"):
        return
    backbone.forward_alone = backbone.forward

    def forward(
        input_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None, **options: Any
    ) -> Any:
        arguments = {name for name, value in options.items() if value is not None and value is not False}
        plain = input_ids is not None and not arguments
        if not plain or input_ids is None or (backbone.training and _recomputes(backbone)):
            return backbone.forward_alone(input_ids=input_ids, attention_mask=attention_mask, **options)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        rows = [ids[mask.bool()] for ids, mask in zip(input_ids, mask, strict=True)]
        common = common_length(rows)
        if len(rows) < 2 or common < _WORTH_SHARING or not _are_contiguous(mask):
            return backbone.forward_alone(input_ids=input_ids, attention_mask=attention_mask, **options)
        hidden = _hidden_states(backbone, rows, common)
        return BaseModelOutputWithPast(last_hidden_state=_as_padded(hidden, mask))

    backbone.forward = forward


def _recomputes(backbone: Any) -> bool:
    """Whether gradient checkpointing is on. Its name in transformers changes from version 5 to 6."""
    return any(getattr(module, "gradient_checkpointing", False) for module in backbone.modules())


def _attends_to_all(model: Any) -> bool:
    """Whether all layers attend to all previous positions."""
    windows = getattr(model.config.get_text_config(), "sliding_window", None)
    return way_of(model) is SamplingWay.PACKED and kinds_of(model.config) == {FULL} and not windows


def common_length(rows: list[torch.Tensor]) -> int:
    """Return the length of the common prefix, without the last token of the shortest row."""
    shortest = min(len(row) for row in rows)
    heads = torch.stack([row[:shortest] for row in rows])
    differs = (heads != heads[:1]).any(dim=0).nonzero()
    return min(int(differs[0]) if len(differs) else shortest, shortest - 1)


def _hidden_states(backbone: Any, rows: list[torch.Tensor], common: int) -> torch.Tensor:
    """Return the hidden states of all rows, `(rows, longest row, size)`, each from its first token on."""
    cache = DynamicCache()
    caching = {**cache_argument(backbone, cache), "use_cache": True}
    head = backbone.forward_alone(input_ids=rows[0][None, :common], **caching)
    for layer in cache.layers:
        assert isinstance(layer, DynamicLayer)
        assert layer.keys is not None
        assert layer.values is not None
        layer.keys = layer.keys.expand(len(rows), -1, -1, -1)
        layer.values = layer.values.expand(len(rows), -1, -1, -1)
    ends = torch.nn.utils.rnn.pad_sequence([row[common:] for row in rows], batch_first=True)
    places = torch.arange(common, common + ends.shape[1], device=ends.device)
    lengths = torch.tensor([len(row) for row in rows], device=ends.device)
    mask = torch.arange(common + ends.shape[1], device=ends.device) < lengths[:, None]
    tail = backbone.forward_alone(
        input_ids=ends,
        attention_mask=mask.long(),
        position_ids=places.expand(len(rows), -1),
        **caching,
    )
    return torch.cat([head.last_hidden_state.expand(len(rows), -1, -1), tail.last_hidden_state], dim=1)


def _as_padded(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the hidden states at the positions of the padded batch, and 0 at padding."""
    first = mask.argmax(dim=1, keepdim=True)
    places = (torch.arange(mask.shape[1], device=mask.device) - first).clamp(0, hidden.shape[1] - 1)
    padded = hidden.gather(1, places[:, :, None].expand(-1, -1, hidden.shape[-1]))
    return padded * mask[:, :, None].to(padded.dtype)


def _are_contiguous(mask: torch.Tensor) -> bool:
    """Whether rows have padding only at their ends."""
    starts = (mask[:, 1:] > mask[:, :-1]).sum(dim=1) + mask[:, 0]
    return bool((starts == 1).all())
