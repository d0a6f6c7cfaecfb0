"""Folders that hold LoRA adapters and not the model that they belong to, as a run with `lora_rank` leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError, require

_CONFIGURATION = "adapter_config.json"


def base_of(model: str) -> str | None:
    """Return the folder or name of the model that the adapters in a folder belong to; `None` if it holds none alone.

    Raises:
        UsageError: The adapters do not say what they belong to.
    """
    path = Path(model) / _CONFIGURATION
    if not path.is_file() or (path.parent / "config.json").is_file():
        return None
    try:
        base = json.loads(path.read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, TypeError, KeyError):
        base = None
    if not isinstance(base, str) or not base:
        raise UsageError(
            f"{path} does not say which model its adapters belong to (base_model_name_or_path); put them into their "
            "model (merge_and_unload of peft), and save that with its tokenizer"
        )
    return base


def merged(model: Any, folder: str) -> Any:
    """Return a model with the adapters of a folder in its weights, as it is sampled from in training."""
    require("peft", "train")
    from peft import PeftModel

    return PeftModel.from_pretrained(model, folder).merge_and_unload()
