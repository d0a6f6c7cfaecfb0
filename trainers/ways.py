"""How conversations can be sampled from a model, by what its layers keep of them.

Attention to all positions before, or to a window of them, can be computed for many conversations in one row. Other
attention (chunks, sinks, soft caps, positions as biases) is computed by the model itself, one conversation at a time.
The state of other layers (Mamba, linear attention, convolutions) belongs to no position, so that it cannot be shared.
"""

from __future__ import annotations

import logging
from enum import Enum
from functools import lru_cache
from typing import Any

from agentgym.trainers.lora import without_adapters
from agentgym.trainers.packing import FULL, SLIDING, can_pack

_log = logging.getLogger(__name__)
_KEYS_AND_VALUES = frozenset({FULL, SLIDING, "chunked_attention"})


class Way(Enum):
    """How a pass computes conversations."""

    PACKED = "packed"
    """All of them in one row; their keys and values are kept."""
    ALONE = "alone"
    """One by one, as the model attends by itself; their keys and values are kept."""
    WHOLE = "whole"
    """One by one, each from its first token on; nothing is kept."""


def way_of(model: Any) -> Way:
    """Return how conversations are sampled from a model, of transformers, which may have adapters."""
    inner = without_adapters(model)
    told = getattr(inner.config.get_text_config(), "layer_types", None)  # a hybrid may have attention only
    has_states = not set(told) <= _KEYS_AND_VALUES if told else getattr(inner, "_is_stateful", False)
    if has_states:
        _tell(str(getattr(inner.config, "model_type", type(inner).__name__)))
        return Way.WHOLE
    return Way.PACKED if can_pack(model) else Way.ALONE


@lru_cache(maxsize=64)
def _tell(kind: str) -> None:
    """Say once a process why sampling takes so long."""
    _log.warning(
        "a model of the kind %r keeps more of a conversation than keys and values, so each token is computed from the "
        "whole conversation; vllm:MODEL samples faster",
        kind,
    )
