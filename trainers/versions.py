"""Differences between the releases of transformers that are supported."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from transformers import TrainingArguments

_NAMES = {field.name for field in fields(TrainingArguments)}


def checkpointing(enabled: bool) -> dict[str, Any]:
    """Return the argument that switches gradient checkpointing on or off; later releases call it by another name."""
    return {"activation_checkpointing" if "activation_checkpointing" in _NAMES else "gradient_checkpointing": enabled}
