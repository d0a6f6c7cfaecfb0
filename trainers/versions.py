"""Hides differences between the supported releases of transformers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from transformers import TrainingArguments

_NAMES = {field.name for field in fields(TrainingArguments)}


def checkpointing(enabled: bool) -> dict[str, Any]:
    """Return the argument that switches gradient checkpointing on or off; its name depends on the release."""
    return {"activation_checkpointing" if "activation_checkpointing" in _NAMES else "gradient_checkpointing": enabled}
