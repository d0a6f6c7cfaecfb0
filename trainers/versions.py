"""Hides differences between the supported releases of transformers, and its private names."""

from __future__ import annotations

import inspect
from dataclasses import fields
from functools import lru_cache
from typing import Any

from transformers import TrainingArguments

_NAMES = {field.name for field in fields(TrainingArguments)}


def checkpointing(enabled: bool) -> dict[str, Any]:
    """Return the argument that switches gradient checkpointing on or off; its name depends on the release."""
    return {"activation_checkpointing" if "activation_checkpointing" in _NAMES else "gradient_checkpointing": enabled}


def cache_argument(model: Any, cache: Any) -> dict[str, Any]:
    """Return the argument in which a model, without adapters, takes a cache; its name depends on the release."""
    return {_cache_name(type(model)): cache}


@lru_cache(maxsize=64)
def _cache_name(kind: Any) -> str:
    return "cache" if "cache" in inspect.signature(kind.forward).parameters else "past_key_values"


def keeps_states(model: Any) -> bool:
    """Whether a model without adapters keeps more of a conversation than keys and values, e.g. the states of Mamba."""
    # Reason: some models (e.g. Mamba) do not list their kinds of layers. Unnecessary once all have `layer_types`.
    return bool(getattr(model, "_is_stateful", False))


def commit_of(config: Any) -> str | None:
    """Return the commit of the Hub from which a model's configuration came, `None` for a local one."""
    # Reason: the cache of warm starts must notice a new revision. Unnecessary once transformers has a public name.
    return getattr(config, "_commit_hash", None)
