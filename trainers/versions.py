"""Hides differences between the supported releases of transformers, and its private names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import lru_cache
from typing import Any

from transformers import TrainingArguments

_NAMES = {field.name for field in fields(TrainingArguments)}


def checkpointing(enabled: bool) -> dict[str, Any]:
    """Return the argument for gradient checkpointing; its name depends on the release."""
    return {"activation_checkpointing" if "activation_checkpointing" in _NAMES else "gradient_checkpointing": enabled}


def cache_argument(model: Any, cache: Any) -> dict[str, Any]:
    """Return the argument that passes a cache to a model without adapters; its name depends on the release."""
    return {_cache_name(type(model)): cache}


@lru_cache(maxsize=64)
def _cache_name(kind: Any) -> str:
    return "cache" if "cache" in inspect.signature(kind.forward).parameters else "past_key_values"


def accepts_attention(model: Any) -> bool:
    """Whether a model without adapters can use a registered attention function."""
    # Reason: models with their own attention ignore the setting. Unnecessary once transformers has a public name.
    return bool(getattr(model, "_supports_attention_backend", False))


@contextmanager
def attention_set(config: Any, name: str) -> Iterator[None]:
    """Use the attention function with this name in a model with `config`."""
    # Reason: `set_attn_implementation` visits every module, at every pass. Unnecessary once a forward pass takes a
    # name.
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def keeps_states(model: Any) -> bool:
    """Whether a model without adapters keeps more of a conversation than keys and values, e.g. the states of Mamba."""
    # Reason: some models (e.g. Mamba) do not list their kinds of layers. Unnecessary once all have `layer_types`.
    return bool(getattr(model, "_is_stateful", False))


def commit_of(config: Any) -> str | None:
    """Return the Hub commit of a model's configuration, `None` for a local one."""
    # Reason: the cache of warm starts must notice a new revision. Unnecessary once transformers has a public name.
    return getattr(config, "_commit_hash", None)
