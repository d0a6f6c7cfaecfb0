"""Creates vLLM engines in this process: for training (through TRL, with our settings) and for evaluation."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from agentgym.base.errors import UsageError, require
from agentgym.core.foreign import describe
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.passed_on import check_kinds, kinds_of
from agentgym.trainers.trl_seam import engine_made_by
from agentgym.trainers.vllm import on_cpu as vllm_on_cpu

_WEIGHTS = ("*.safetensors", "*.bin")


def engine_settings(model_config: Any, *, dtype: str, context: int, at_once: int, memory: float) -> dict[str, Any]:
    """Return arguments of `vllm.LLM` for sampling like the other policies.

    Args:
        model_config: The model's configuration (transformers).
        dtype: The engine's precision, such as `float32`.
        context: Longest conversation, in tokens.
        at_once: Maximum number of concurrent conversations.
        memory: Share of memory that the engine may use.
    """
    common = {
        # By default vLLM rounds float32 weights, and would sample from another distribution than the trained one.
        "dtype": dtype,
        # Report log-probabilities after the temperature.
        "logprobs_mode": "processed_logprobs",
        # Policies use token ids, and specify the end tokens themselves.
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "use_tqdm_on_load": False,
        "disable_log_stats": True,
    }
    if not vllm_on_cpu.is_needed():
        return common
    vllm_on_cpu.prepare()
    cpu = vllm_on_cpu.settings(model_config, dtype=dtype, context=context, at_once=at_once, share=memory)
    return common | cpu


def precision_of(model: Any, *, bf16: bool = False) -> str:
    """Return a model's precision: bfloat16 with `bf16`, otherwise that of its weights or configuration."""
    return "bfloat16" if bf16 else str(model.dtype or torch.float32).removeprefix("torch.")


@contextmanager
def trl_engine(config: TrainConfig, model: Any, tokenizer: Any) -> Iterator[None]:
    """Within this context, TRL creates its engine for `model` with our settings in addition to its own."""
    if not config.use_vllm:
        yield
        return
    settings = engine_settings(
        model.config,
        dtype=precision_of(model, bf16=config.bf16),
        context=config.context,
        at_once=config.at_once,
        memory=config.vllm_memory or vllm_on_cpu.SHARE,
    )
    with PartialState().main_process_first():
        settings["model"] = servable(model, tokenizer, config.folder / "start")
    with engine_made_by(lambda engine_class, arguments: _make(engine_class, arguments | settings | config.vllm)):
        yield


def check_engine_arguments(config: TrainConfig) -> None:
    """Raise `UsageError` if vLLM's engine has no argument that the setting `vllm` names, or it has another type."""
    if not config.vllm:
        return
    if vllm_on_cpu.is_needed():
        vllm_on_cpu.prepare()
    from vllm import EngineArgs  # type: ignore[import-not-found]

    check_kinds("vllm", config.vllm, kinds_of(EngineArgs))


def make_engine(
    folder: str, model_config: Any, *, dtype: str, context: int, at_once: int, memory: float, sees: bool = False
) -> Any:
    """Return an engine (`vllm.LLM`) of the checkpoint in `folder`, for evaluation; see `engine_settings`.

    With `sees`, the engine prepares pictures with the model's own processor, which needs its tokenizer.

    Raises:
        MissingExtra: vLLM is not installed.
        UsageError: vLLM cannot run the model.
    """
    require("vllm", "vllm")
    settings = engine_settings(model_config, dtype=dtype, context=context, at_once=at_once, memory=memory)
    from vllm import LLM  # type: ignore[import-not-found]

    return _make(
        LLM,
        {
            "model": folder,
            "max_model_len": context,
            "max_num_seqs": at_once,
            "gpu_memory_utilization": memory,
            **settings,
            "skip_tokenizer_init": not sees,
        },
    )


def servable(model: Any, tokenizer: Any, scratch: Path) -> str:
    """Return a folder or public name for vLLM to load `model` from. Writes its weights to `scratch` if necessary."""
    source = Path(model.name_or_path)
    is_merged = not hasattr(model, "peft_config")
    if is_merged and (is_checkpoint(source) or not source.is_dir()):
        return str(model.name_or_path)
    if is_checkpoint(scratch):  # written by another process of this run
        return str(scratch)
    _plain(model if is_merged else _merged(model)).save_pretrained(scratch)
    tokenizer.save_pretrained(scratch)
    return str(scratch)


def _merged(model: Any) -> Any:
    """Return a copy of a model with its LoRA adapters merged into its weights."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    whole = copy.deepcopy(model)
    for name, layer in list(whole.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            whole.set_submodule(name, layer.get_base_layer())
    return whole


def _plain(model: Any) -> Any:
    """Return a model with the same weights and without traces of adapters or a GGUF file."""
    config = copy.deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = type(model)(config).to(model.dtype)
    fresh.load_state_dict(model.state_dict())
    fresh.generation_config = model.generation_config
    return fresh


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder contains a whole model, not only adapters or another format.

    If a folder contains adapters, transformers loads the model that they name.
    """
    has_adapters = (folder / "adapter_config.json").is_file()
    has_weights = any(path for kind in _WEIGHTS for path in folder.glob(kind))
    return (folder / "config.json").is_file() and has_weights and not has_adapters


def _make(make: Any, arguments: dict[str, Any]) -> Any:
    if "VLLM_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("vllm").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries, about vLLM's use of them
            return make(**arguments)
    except (ValueError, NotImplementedError, torch.OutOfMemoryError) as error:
        raise UsageError(f"vLLM cannot run {arguments['model']!r}: {describe(error)}") from error
