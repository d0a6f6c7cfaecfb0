"""Settings that a run passes on unchanged: to TRL (`trl`), to vLLM (`vllm`) and to the model's loader (`model_kwargs`).

A key is refused if a setting of ours owns it, or if it would break credit per token. Imports neither TRL nor vLLM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import GenericAlias
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError

MAPPINGS = ("trl", "vllm", "model_kwargs")
"""The settings whose keys are passed on."""

_TRL_OWNED = {
    "bf16": ("bf16", "fp16", "bf16_full_eval", "fp16_full_eval"),
    "clip_high": ("epsilon_high",),
    "clip_low": ("epsilon",),
    "context": ("max_completion_length", "vllm_max_model_length"),
    "entropy_weight": ("entropy_coef",),
    "epochs_per_step": ("num_iterations",),
    "eval_tasks": ("eval_strategy", "eval_steps", "eval_on_start", "num_generations_eval", "do_eval"),
    "gradient_checkpointing": ("activation_checkpointing", "gradient_checkpointing"),
    "group_size": ("num_generations",),
    "groups": ("generation_batch_size",),
    "keep_checkpoints": ("save_total_limit",),
    "kl_weight": ("beta",),
    "learning_rate": ("learning_rate",),
    "loss": ("loss_type",),
    "max_grad_norm": ("max_grad_norm",),
    "micro_batch": ("per_device_train_batch_size", "gradient_accumulation_steps", "auto_find_batch_size"),
    "model": ("model_init_kwargs", "trust_remote_code"),
    "output_dir": ("output_dir",),
    "report_to": ("report_to",),
    "resume": ("resume_from_checkpoint", "ignore_data_skip"),
    "save_every": ("save_strategy", "save_steps", "logging_strategy", "logging_steps"),
    "seed": ("seed", "data_seed"),
    "steps": ("max_steps", "num_train_epochs"),
    "temperature": ("temperature",),
    "template_kwargs": ("chat_template_kwargs",),
    "train_on_truncated": ("mask_truncated_completions",),
    "updates_per_step": ("steps_per_generation",),
    "use_vllm": ("use_vllm", "vllm_mode"),
    "vllm": ("vllm_model_impl", "vllm_tensor_parallel_size"),
    "vllm_memory": ("vllm_gpu_memory_utilization",),
    "warmup_steps": ("warmup_steps",),
    "weight_decay": ("weight_decay",),
}
"""Arguments of TRL by the setting that decides them."""
_CREDIT = "it would discard the credit of turns (--credit)"
_SAMPLING = "the run samples at --temperature alone, and its log-probabilities are those of that distribution"
_TRL_REFUSED = {
    **dict.fromkeys(("importance_sampling_level", "use_liger_kernel"), _CREDIT),
    **dict.fromkeys(
        ("scale_rewards", "reward_weights", "multi_objective_aggregation"), "advantages come from --credit"
    ),
    **dict.fromkeys(
        ("vllm_importance_sampling_correction", "vllm_importance_sampling_mode", "vllm_importance_sampling_cap"),
        "the correction is per token, which credit per turn needs",
    ),
    **dict.fromkeys(("vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max"), "the run sets it"),
    **dict.fromkeys(("top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs"), _SAMPLING),
    **dict.fromkeys(
        ("remove_unused_columns", "shuffle_dataset", "disable_tqdm", "use_cpu", "train_sampling_strategy"),
        "the run depends on its own value",
    ),
    **dict.fromkeys(("vllm_enable_sleep_mode",), "a turn may be sampled at any time"),
}
"""Arguments of TRL that no setting decides, and why they cannot be changed."""

_VLLM_OWNED = {
    "bf16": ("dtype",),
    "context": ("max_model_len",),
    "dialect": ("reasoning_parser", "tool_call_parser"),
    "lora_rank": ("enable_lora", "max_lora_rank", "max_loras", "lora_modules"),
    "max_in_flight": ("max_num_seqs",),
    "model": ("model", "tokenizer", "revision", "tokenizer_revision", "trust_remote_code", "load_format"),
    "seed": ("seed",),
    "template_kwargs": ("chat_template",),
    "vllm_memory": ("gpu_memory_utilization",),
}
_ONE_GPU = "an engine in a training process has one GPU; start one process for each"
_VLLM_REFUSED = {
    **dict.fromkeys(("logprobs_mode", "generation_config", "override_generation_config"), _SAMPLING),
    **dict.fromkeys(("logits_processors", "max_logprobs"), _SAMPLING),
    **dict.fromkeys(("skip_tokenizer_init", "distributed_executor_backend"), "the run depends on its own value"),
    **dict.fromkeys(("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"), _ONE_GPU),
    **dict.fromkeys(("quantization", "enable_sleep_mode"), "the weights of each step replace those of the engine"),
}

_MODEL_KINDS: dict[str, Any] = {"attn_implementation": str, "dtype": str}
DTYPES = ("float32", "bfloat16", "float16")
"""Types of weights that `model_kwargs` can choose."""


def check_passed_on(values: Mapping[str, Mapping[str, Any]], *, use_vllm: bool, is_tiny: bool) -> None:
    """Raise `UsageError` for a key that is not passed on, as far as that is known without TRL and vLLM.

    Args:
        values: The mappings by the names in `MAPPINGS`.
        use_vllm: Whether the run has a vLLM engine.
        is_tiny: Whether the model is made for the run.
    """
    _refuse_owned("trl", values["trl"], _TRL_OWNED, _TRL_REFUSED)
    _refuse_owned("vllm", values["vllm"], _VLLM_OWNED, _VLLM_REFUSED)
    if values["vllm"] and not use_vllm:
        raise UsageError("vllm has no effect while use_vllm is false; leave it out, or pass --use-vllm")
    if values["model_kwargs"] and is_tiny:
        raise UsageError("model_kwargs are for pretrained models; the tiny model is made for the run")
    check_kinds("model_kwargs", values["model_kwargs"], _MODEL_KINDS)
    if (dtype := values["model_kwargs"].get("dtype")) not in (None, *DTYPES):
        raise UsageError(f"model_kwargs: dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")


def owned_by_run(name: str) -> frozenset[str]:
    """Return the keys that `trl` or `vllm` refuses."""
    owned, refused = (_TRL_OWNED, _TRL_REFUSED) if name == "trl" else (_VLLM_OWNED, _VLLM_REFUSED)
    return frozenset(key for keys in owned.values() for key in keys) | refused.keys()


def _refuse_owned(
    name: str, values: Mapping[str, Any], owned: Mapping[str, Collection[str]], refused: Mapping[str, str]
) -> None:
    """Raise `UsageError` for the first key that the run decides itself."""
    for key in values:
        for setting, keys in owned.items():
            if key in keys:
                raise UsageError(f"{name}: {key!r} is decided by our setting {setting} (--{setting.replace('_', '-')})")
        if key in refused:
            raise UsageError(f"{name}: {key!r} cannot be changed: {refused[key]}")


def check_kinds(name: str, values: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an unknown key, or a value of a wrong type.

    Args:
        name: One of `MAPPINGS`.
        values: Its values.
        kinds: The type of each valid key.
    """
    for key, value in values.items():
        if key not in kinds:
            raise UsageError(f"{name}: unknown key {key!r}{nearest(key, kinds)}")
        try:
            # In a tuple, since a dataclass alone takes no configuration. A mapping may become an object.
            alone: Any = GenericAlias(tuple, (kinds[key],))
            adapter: TypeAdapter[Any] = TypeAdapter(alone, config=ConfigDict(arbitrary_types_allowed=True))
            adapter.validate_python((value,), strict=not isinstance(value, Mapping))
        except ValidationError as error:
            raise UsageError(f"{name}: {key!r}: {error.errors()[0]['msg']}, got {value!r}") from None


def kinds_of(owner: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields; `Any` where a name is known to type checkers only."""
    return {field.name: _kind_of(owner, field.name) for field in dataclasses.fields(owner)}


def _kind_of(owner: type, name: str) -> Any:
    base = next(base for base in owner.__mro__ if name in vars(base).get("__annotations__", {}))
    annotations = {name: vars(base)["__annotations__"][name]}
    try:
        return get_type_hints(type(name, (), {"__annotations__": annotations, "__module__": base.__module__}))[name]
    except NameError:
        return Any


def merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with changes; keys that are passed on are added to those before."""
    added = {name: {**(before.get(name) or {}), **changes[name]} for name in MAPPINGS if _is_mapping(changes, name)}
    return {**before, **changes, **added}


def _is_mapping(values: Mapping[str, Any], name: str) -> bool:
    return isinstance(values.get(name), Mapping)
