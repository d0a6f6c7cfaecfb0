"""Loads policies with weights by name: `tiny`, or any transformers checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from agentgym.base.errors import UsageError
from agentgym.core.dialects import TEMPLATE, dialect_names, is_template
from agentgym.core.foreign import describe
from agentgym.core.registry import class_of
from agentgym.core.task_files import state_of
from agentgym.rollout import EnvFactory
from agentgym.trainers import ranks
from agentgym.trainers.adapters import base_of, merged
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.config import TINY, TrainConfig, load_config, short_name
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.hub import options_for
from agentgym.trainers.precision import count_weights, evaluation_dtype, loading
from agentgym.trainers.run_folder import keep_start, last_checkpoint, start_of
from agentgym.trainers.template_dialect import name_of
from agentgym.trainers.tiny import TinyShape
from agentgym.trainers.transformers_policy import Sampling, TransformersPolicy
from agentgym.trainers.versions import commit_of
from agentgym.trainers.vllm.policy import VLLMPolicy
from agentgym.trainers.warm_start import (
    Goal,
    Own,
    Pretrained,
    Progress,
    WarmStart,
    load_warm,
    no_progress,
    warm_started,
    words_of,
)
from agentgym.trainers.warm_start.alone import made_alone

TRAINED = "agentgym.json"
"""Name of the file with the environment, arguments and dialect of a model trained here, in the model's folder."""

_OF_MODELS = (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja")
"""Suffixes of the files that determine a model and its tokenizer."""
_END_BYTES = 2**20
"""Bytes at either end of a file of weights that its hash depends on."""

LONGEST = 8_192
"""Default limit of a conversation, in tokens."""


def default_dialect(model: str) -> str:
    """Return the default dialect of a model: the one it was trained with here, `compact` for tiny, else `hermes`."""
    if (trained := _training_of(model)) is not None:
        dialect = trained["env_kwargs"]["dialect"]
        if dialect not in (*dialect_names(), TEMPLATE):
            raise UsageError(
                f"model {model!r} was trained in dialect {dialect!r}; if you trust it, pass --dialect {dialect}"
            )
        return dialect
    return "compact" if model == TINY else "hermes"


def training_arguments(model: str, env_id: str) -> dict[str, Any]:
    """Return the environment arguments that a model was trained with here, including its dialect.

    For `tiny` they come from the environment's recipe; for a model trained elsewhere or in another environment, only
    the dialect applies. The file in a model's folder is untrusted (`agentgym.core.making`).
    """
    if (trained := _training_of(model)) is not None:
        same = short_name(trained["env"]) == short_name(env_id)
        return trained["env_kwargs"] if same else {"dialect": trained["env_kwargs"]["dialect"]}
    recipe = load_config(None, {"env": env_id}).env_kwargs if model == TINY else {}
    return recipe | {"dialect": default_dialect(model)}


def _training_of(model: str) -> dict[str, Any] | None:
    """Return the content of the file `TRAINED`, if any. Raises `UsageError` if training did not write it."""
    path = Path(model) / TRAINED
    if not path.is_file():
        return None
    try:
        training = json.loads(path.read_text(encoding="utf-8"))
        usable = isinstance(training["env"], str) and isinstance(training["env_kwargs"]["dialect"], str)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(f"{path}: training did not write this file: {describe(error)}") from error
    if not usable:
        raise UsageError(f"{path}: training did not write this file: the environment and the dialect must be text")
    return training


def describe_training(folder: Path, env: str, env_kwargs: dict[str, Any]) -> None:
    """Write the file `TRAINED` into a model's folder."""
    if is_template(str(env_kwargs.get("dialect"))):
        env_kwargs = {**env_kwargs, "dialect": TEMPLATE}  # that of the trained model
    (folder / TRAINED).write_text(json.dumps({"env": env, "env_kwargs": env_kwargs}, indent=1), encoding="utf-8")


def dialect_of(config: TrainConfig) -> str:
    """Return the full name of a run's dialect."""
    dialect = config.dialect or config.env_kwargs.get("dialect") or default_dialect(config.model)
    return name_of(config.model, config.template_kwargs) if dialect == TEMPLATE else dialect


def load(
    name: str,
    *,
    env_id: str,
    env_kwargs: dict[str, Any],
    dialect: str | None = None,
    temperature: float = 1.0,
    seed: int = 0,
    concurrency: int = 64,
    context: int | None = None,
    progress: Progress = no_progress,
) -> TransformersPolicy:
    """Return a policy for evaluation.

    Args:
        name: `tiny` (warm-started on the environment, and cached), `smollm2`, a checkpoint folder, a
            GGUF file, or a model name that transformers can find.
        env_id: The environment of the tiny model's warm start.
        env_kwargs: Arguments of that environment.
        dialect: How the tiny model writes tool calls; `compact` by default.
        temperature: The sampling temperature; 0 takes the likeliest tokens.
        seed: Seed of sampling.
        concurrency: Conversations to sample at the same time.
        context: Longest conversation, in tokens; by default as long as the model allows, at most `LONGEST`.
        progress: Called with `(what, done, of)` during long operations.
    """
    device = default_device()
    if name == TINY:
        model, tokenizer = load_model(config_of(name, env_id, env_kwargs, dialect), progress)
    else:
        model, tokenizer = load_checkpoint(name, device=device, progress=progress)
    model.to(device).eval()
    return make_policy(
        model,
        tokenizer,
        name=name,
        context=context,
        slots=concurrency,
        sampling=Sampling(temperature, seed),
        with_tools=dialect is not None and is_template(dialect),
    )


def default_device() -> str:
    """Return the device for evaluation in this process."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def policy_of(config: TrainConfig, model: Any, tokenizer: Any, slots: int) -> TransformersPolicy | VLLMPolicy:
    """Return the policy of a run. A vLLM policy receives its engine later."""
    sampling = Sampling(config.temperature, seed=config.seed)
    if not config.use_vllm:
        return make_policy(
            model,
            tokenizer,
            name=config.model,
            context=config.context,
            slots=slots,
            sampling=sampling,
            template_kwargs=config.template_kwargs,
            with_tools=is_template(dialect_of(config)),
        )
    codec = codec_of(config, model, tokenizer)
    return VLLMPolicy(
        codec,
        end_ids=sorted(codec.end_ids),
        context=config.context,
        name=config.model,
        sampling=sampling,
    )


def make_policy(
    model: Any,
    tokenizer: Any,
    *,
    name: str,
    context: int | None = None,
    slots: int = 64,
    sampling: Sampling | None = None,
    template_kwargs: Mapping[str, Any] | None = None,
    with_tools: bool = False,
) -> TransformersPolicy:
    """Return a policy that samples from `model` in this process.

    Args:
        model: A causal LM of transformers.
        tokenizer: Its tokenizer.
        name: The policy's name in reports.
        context: Longest conversation, in tokens.
        slots: Conversations to sample at the same time.
        sampling: How to draw tokens.
        template_kwargs: Arguments of the chat template.
        with_tools: Let the chat template explain the tools, as the dialect `template` does.
    """
    ends = end_tokens(model, tokenizer)
    codec = ChatCodec(tokenizer, template_kwargs=template_kwargs, with_tools=with_tools, end_ids=ends)
    return TransformersPolicy(
        model,
        codec,
        end_ids=sorted(codec.end_ids),
        context=longest_conversation(model.config, context),
        name=name,
        slots=slots,
        sampling=sampling,
    )


def config_of(model: str, env_id: str, env_kwargs: dict[str, Any], dialect: str | None) -> TrainConfig:
    """Return the settings of a run with this model in this environment."""
    return load_config(None, {"env": env_id, "env_kwargs": env_kwargs, "model": model, "dialect": dialect})


def longest_conversation(config: Any, limit: int | None) -> int:
    """Return the maximum tokens of a conversation: `limit` or `LONGEST`, within the model's own maximum.

    Args:
        config: The model's configuration (transformers).
        limit: The requested maximum, if any.
    """
    return min(positions_of(config) or LONGEST, limit or LONGEST)


def positions_of(config: Any) -> int | None:
    """Return the number of positions of a model, for vision models that of their text model."""
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def codec_of(config: TrainConfig, model: Any, tokenizer: Any) -> ChatCodec:
    """Return the codec of a run."""
    return ChatCodec(
        tokenizer,
        template_kwargs=config.template_kwargs,
        with_tools=is_template(dialect_of(config)),
        end_ids=end_tokens(model, tokenizer),
    )


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Return the tokens that end a turn, from the tokenizer and the model's generation settings."""
    settings = getattr(model, "generation_config", None)
    ends = getattr(settings, "eos_token_id", None)
    ends = [] if ends is None else ends if isinstance(ends, list) else [ends]
    return sorted({tokenizer.eos_token_id, *ends} - {None})


def load_model(
    config: TrainConfig, progress: Progress = no_progress, *, run_folder: Path | None = None
) -> tuple[Any, Any]:
    """Return `(model, tokenizer)` for a run, after its warm start.

    Args:
        config: The settings of the run.
        progress: Called during long operations.
        run_folder: Keeps the warm-started model of a new run, and provides that of a resumed one.

    Raises:
        UsageError: Loading fails.
    """
    options: dict[str, Any] = {"dtype": torch.float32}
    if config.model != TINY:
        options = loading(config.bf16, config.lora_rank, config.model_kwargs)

    def load() -> tuple[Any, Any]:
        return load_checkpoint(config.model, progress=progress, **options)

    transformers_logging.disable_progress_bar()  # we show our own
    if config.model != TINY and not config.is_warm_started:
        return load()
    if run_folder is not None and config.resume:
        return load_warm(start_of(run_folder), options)
    early = replace(config, use_vllm=False)  # before vLLM has an engine
    slots, settings = 64, warm_start_of(config)
    if ranks.world_size() > 1:
        made_alone(config, settings.folder)
    warm = warm_started(settings, progress, lambda model, tokens: policy_of(early, model, tokens, slots), load)
    if run_folder is not None and PartialState().is_main_process:
        keep_start(run_folder, settings.folder)
    return warm


def weights_of(config: TrainConfig) -> int:
    """Return the number of weights of a run's model, without loading it. Raises `UsageError` if it does not exist."""
    if config.model == TINY:
        return _shape_of(config).weights
    with explained(config.model):
        _, base, own = _layers_of(*_source_of(config.model))
        return count_weights(AutoConfig.from_pretrained(base, **own))


def state_of_model(config: TrainConfig) -> str:
    """Return a hash of a pretrained model's commit, and of the names, sizes, first and last bytes of its files.

    Raises:
        UsageError: The model does not exist.
    """
    with explained(config.model):
        source, options = _source_of(config.model)
        adapters, base, own = _layers_of(source, options)
        digest = hashlib.sha256(repr(commit_of(AutoConfig.from_pretrained(base, **own))).encode())
        for path in sorted(path for place in (*adapters, base) for path in Path(place).glob("*")):
            if path.suffix in _OF_MODELS:
                size = path.stat().st_size
                with path.open("rb") as file:
                    digest.update(f"{path.name}/{size}/".encode() + file.read(_END_BYTES))
                    file.seek(max(0, size - _END_BYTES))
                    digest.update(file.read())
    return digest.hexdigest()[:16]


def load_checkpoint(
    name: str,
    dtype: torch.dtype | None = None,
    *,
    device: str = "cpu",
    attn_implementation: str | None = None,
    progress: Progress = no_progress,
) -> tuple[Any, Any]:
    """Return `(model, tokenizer)` of a checkpoint's folder or name, of a folder with adapters, or of a GGUF file.

    Args:
        name: The model.
        dtype: Type of the weights; by default, the fastest for sampling on the device.
        device: `cuda` or `cpu`, the device that will run the model.
        attn_implementation: Name of the attention (transformers); by default the model's own choice.
        progress: Called with `(what, done, of)` during long operations.

    Raises:
        UsageError: The model cannot be loaded.
    """
    progress("loading the model", 0, 1)
    with explained(name):
        source, options = _source_of(name)
        adapters, base, own = _layers_of(source, options)
        dtype = dtype or evaluation_dtype(base, device, **own)
        load: Any = AutoModelForCausalLM.from_pretrained  # its types lack the loading info
        if attn_implementation is not None:
            own = {**own, "attn_implementation": attn_implementation}
        model, loading_info = load(base, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True, **own)
        _check_weights(name, loading_info)
        for folder in reversed(adapters):
            model = merged(model, folder)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    progress("loading the model", 1, 1)
    return model, tokenizer


def _check_weights(name: str, loading_info: Mapping[str, Any]) -> None:
    """Raise `UsageError` if a checkpoint lacks weights of its model, which would silently be random."""
    wrong = {
        "are missing": loading_info["missing_keys"],
        "have another shape": [key for key, *_ in loading_info["mismatched_keys"]],
    }
    for problem, keys in wrong.items():
        if keys:
            first = sorted(keys)[0]
            raise UsageError(
                f"cannot load model {name!r}: {len(keys)} of its weights {problem}, such as {first!r}. Save the whole "
                "language model (AutoModelForCausalLM), with the configuration that belongs to it."
            )


def check_model(config: TrainConfig) -> None:
    """Raise `UsageError` if the model of a run does not exist. Much faster than loading it."""
    with explained(config.model):
        source, options = _source_of(config.model)
        _, base, own = _layers_of(source, options)
        AutoConfig.from_pretrained(base, **own)
        AutoTokenizer.from_pretrained(source, **options)


def servable_source(name: str) -> str:
    """Return the folder or name of a model as servers load it. Raises `UsageError` for a folder of adapters."""
    with explained(name):
        source, options = _source_of(name)
        if _layers_of(source, options)[0]:
            raise UsageError(f"{name!r} holds adapters; merge them into their model first (merge_and_unload of peft)")
    return source


def _source_of(name: str) -> tuple[str, dict[str, Any]]:
    """Return the source and the options for `from_pretrained`."""
    transformers_logging.disable_progress_bar()
    source = checkpoint_of(name)
    # Otherwise a checkpoint with custom code would prompt at the terminal.
    return source, {**options_for(source), "trust_remote_code": False}


def _layers_of(source: str, options: dict[str, Any]) -> tuple[list[str], str, dict[str, Any]]:
    """Return a chain of adapter folders, and the source and options of the base model at its end.

    The base of an adapter may be another folder of adapters.
    """
    adapters: list[str] = []
    while (base := base_of(source)) is not None:
        adapters.append(source)
        source, options = _source_of(base)
        if source in adapters:
            raise UsageError(f"the adapters in {source!r} name themselves as their base model")
    return adapters, source, options


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn a library's error about loading a model into a `UsageError`."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:  # from four libraries: broken files, missing packages
        reason = next(iter(str(error).strip().splitlines()), describe(error))
        if (inside := _model_inside(Path(name))) is not None:
            raise UsageError(f"{name!r} is the folder of a training run; its model is in {str(inside)!r}") from error
        raise UsageError(
            f"cannot load model {name!r}: {reason.rstrip('.')}. Give 'tiny', 'smollm2', a folder with a transformers "
            "checkpoint, a GGUF file, or a model name that can be downloaded."
        ) from error


def _model_inside(folder: Path) -> Path | None:
    """Return the model in the folder of a training run, or else its last checkpoint, if any."""
    if not (folder / "config.yaml").is_file():
        return None
    trained = folder / "model"
    return trained if (trained / "config.json").is_file() else last_checkpoint(folder)


def warm_start_of(config: TrainConfig) -> WarmStart:
    """Return the settings of a run's warm start."""
    dialect = dialect_of(config)
    until, sampling = config.warm_start_until, (config.max_new_tokens, config.temperature)
    is_tiny = config.model == TINY
    own = (config.warm_start_own, config.warm_start_own_tasks, config.warm_start_own_samples)
    recordings = config.warm_start_from
    # The warm start ignores rewards, so runs that differ only in their scheme share a model.
    env_kwargs = {name: value for name, value in config.env_kwargs.items() if name != "scheme"} | {"dialect": dialect}
    return WarmStart(
        env=short_name(config.env),
        env_kwargs=env_kwargs,
        words=words_of(EnvFactory(config.env, env_kwargs)),
        shape=_shape_of(config) if is_tiny else None,
        pretrained=None if is_tiny else _pretrained_of(config),
        steps=config.warm_start_steps,
        tasks=config.warm_start_tasks,
        batch=config.warm_start_batch,
        learning_rate=config.warm_start_learning_rate,
        seed=config.seed,
        goal=Goal(until, *sampling, tests=config.warm_start_tests) if until < 1 else None,
        files=_files_of(config),
        recordings=recordings,
        recordings_state=None if recordings is None else repr([*state_of(Path(recordings))]),
        unsolved=config.warm_start_unsolved,
        own=Own(*own, *sampling) if config.warm_start_own else None,
    )


def _shape_of(config: TrainConfig) -> TinyShape:
    return TinyShape(
        vocabulary=config.tiny_vocabulary,
        hidden=config.tiny_hidden,
        layers=config.tiny_layers,
        heads=config.tiny_heads,
        context=config.context,
    )


def _pretrained_of(config: TrainConfig) -> Pretrained:
    with explained(config.model):
        source, options = _source_of(config.model)
        adapters, base, own = _layers_of(source, options)
        shape = AutoConfig.from_pretrained(base, **own)
    files = [*chain.from_iterable(state_of(Path(place)) for place in (*adapters, base))]
    return Pretrained(
        name=source,
        state=repr([commit_of(shape), *files]),
        context=min(config.context, positions_of(shape) or config.context),
        lora_rank=config.lora_rank,
        lora_alpha=config.lora_alpha,
        bf16=config.bf16,
        micro_batch=config.micro_batch,
        gradient_checkpointing=config.gradient_checkpointing,
        template_kwargs=tuple(sorted(config.template_kwargs.items())),
        model_kwargs=tuple(sorted(config.model_kwargs.items())),
    )


def _files_of(config: TrainConfig) -> str | None:
    """Return the state of the files that provide a run's tasks, or `None` if the tasks are not from files."""
    files = class_of(config.env).files
    path = config.env_kwargs.get(files.argument) if files is not None else None
    return None if path is None else repr([*state_of(Path(path))])
