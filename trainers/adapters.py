"""Folders that hold LoRA adapters and not the model that they belong to, as a run with `lora_rank` leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError, require

_CONFIGURATION = "adapter_config.json"


def base_of(model: str) -> str | None:
    """Return the folder or name of the model to which the adapters in a folder belong.

    `None` if there are no adapters, or the model is there too.

    Raises:
        UsageError: The adapters do not say what they belong to.
    """
    path = Path(model) / _CONFIGURATION
    if not path.is_file() or _has_weights(path.parent):
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


def _has_weights(folder: Path) -> bool:
    """Whether a folder holds a whole model beside its adapters; some trainers only copy the configuration there."""
    return any(folder.glob("model*.safetensors")) or any(folder.glob("pytorch_model*.bin"))


def merged(model: Any, folder: str) -> Any:
    """Return a model with the adapters of a folder in its weights, as it is sampled from in training.

    It has the folder's name: under that of the model alone, other weights would be found, by who serves it and by who
    loads the adapters that are trained from here.
    """
    require("peft", "train")
    from peft import PeftModel

    whole = PeftModel.from_pretrained(model, folder).merge_and_unload()
    whole.name_or_path = folder
    return whole
