"""Loads `vllm:MODEL`, sampled with vLLM in this process, and `vllm:MODEL@URL[,URL]`, sampled by running servers."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from agentgym.base.errors import require
from agentgym.core.dialects import is_template
from agentgym.eval.policy_loader import TINY, split_vllm
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.hub import options_for
from agentgym.trainers.pictures import PictureTokens, processor_of
from agentgym.trainers.policies import (
    config_of,
    default_device,
    end_tokens,
    explained,
    load_checkpoint,
    load_model,
    longest_conversation,
)
from agentgym.trainers.transformers_policy import Sampling
from agentgym.trainers.vllm.engine import is_checkpoint, make_engine, precision_of, servable
from agentgym.trainers.vllm.policy import VLLMPolicy
from agentgym.trainers.vllm.server_policy import VLLMServerPolicy
from agentgym.trainers.vllm.servers import refuse_raw_logprobs, served_by
from agentgym.trainers.warm_start import Progress, no_progress

_MEMORY = 0.9
"""Share of memory for an engine that is alone on the device."""


@dataclass(frozen=True)
class _Model:
    """The parts of a model that policies need, without its weights."""

    folder: str
    tokenizer: Any
    config: Any
    end_ids: list[int]
    processor: Any = None
    """Of a vision model."""


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
) -> VLLMPolicy | VLLMServerPolicy:
    """Return a policy for evaluation that samples with vLLM; see `agentgym.trainers.policies.load`.

    Args:
        name: `vllm:MODEL` or `vllm:MODEL@URL[,URL]`, where MODEL is as for `load` and provides the tokenizer.
        env_id: The environment of the tiny model's warm start.
        env_kwargs: Arguments of that environment.
        dialect: How the tiny model writes tool calls.
        temperature: The sampling temperature.
        seed: Seed of sampling.
        concurrency: Maximum number of concurrent conversations in this process.
        context: Longest conversation, in tokens.
        progress: Called with `(what, done, of)` during long operations.

    Raises:
        UsageError: The model cannot be loaded, vLLM cannot run it, or no server answers.
        MissingExtra: vLLM or aiohttp is not installed.
    """
    model_name, urls = split_vllm(name)
    require(*(("aiohttp", "endpoint") if urls else ("vllm", "vllm")))
    model = _model(config_of(model_name, env_id, env_kwargs, dialect), progress)
    longest = longest_conversation(model.config.get_text_config(), context)
    sampling = Sampling(temperature, seed)
    sees = model.processor is not None and not urls  # requests to servers carry tokens only
    codec = ChatCodec(
        model.processor if sees else model.tokenizer,
        end_ids=model.end_ids,
        with_tools=dialect is not None and is_template(dialect),
        sees=sees,
    )
    if urls:
        return _served(name, model_name, urls, codec, sampling, longest)
    return _in_process(name, model, codec, sampling, longest, concurrency)


def _in_process(
    name: str, model: _Model, codec: ChatCodec, sampling: Sampling, context: int, concurrency: int
) -> VLLMPolicy:
    engine = make_engine(
        model.folder,
        model.config.get_text_config(),
        dtype=precision_of(model.config),
        context=context,
        at_once=concurrency,
        memory=_MEMORY,
        sees=codec.sees,
    )
    policy = VLLMPolicy(
        codec,
        end_ids=sorted(codec.end_ids),
        context=context,
        name=name,
        sampling=sampling,
        picture_tokens=PictureTokens(model.processor) if codec.sees else None,
    )
    policy.use(engine.llm_engine)
    return policy


def _served(
    name: str, model: str, urls: list[str], codec: ChatCodec, sampling: Sampling, context: int
) -> VLLMServerPolicy:
    served = served_by(urls, model)
    refuse_raw_logprobs(served.url, served.model, sampling.temperature)
    return VLLMServerPolicy(
        codec,
        urls,
        model=served.model,
        end_ids=sorted(codec.end_ids),
        context=min(context, served.context or context),
        name=name,
        sampling=sampling,
    )


def _model(config: TrainConfig, progress: Progress) -> _Model:
    """Return the parts of a model; load its weights only if vLLM cannot."""
    source = config.model if config.model == TINY else checkpoint_of(config.model)
    if source == TINY:
        return _rewritten(*load_model(config, progress))
    if Path(source).is_dir() and not is_checkpoint(Path(source)):
        # Loaded like the in-process policy, so that both sample from the same weights.
        return _rewritten(*load_checkpoint(source, device=default_device(), progress=progress))
    options = options_for(source)
    with explained(config.model):
        model_config = AutoConfig.from_pretrained(source, **options)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    ends = end_tokens(_Ending(_generation(source, options)), tokenizer)
    return _Model(source, tokenizer, model_config, ends, processor_of(source, model_config, options))


def _rewritten(model: Any, tokenizer: Any) -> _Model:
    """Write a model as a checkpoint for vLLM, unless it is one already."""
    scratch = Path(tempfile.mkdtemp(prefix="agentgym-vllm-"))
    folder = servable(model, tokenizer, scratch)
    loaded = _Model(folder, tokenizer, model.config, end_tokens(model, tokenizer))
    weakref.finalize(tokenizer, shutil.rmtree, scratch, ignore_errors=True)
    return loaded


@dataclass(frozen=True)
class _Ending:
    """Stands for a model with known generation settings."""

    generation_config: GenerationConfig | None


def _generation(model: str, options: dict[str, Any]) -> GenerationConfig | None:
    try:
        return GenerationConfig.from_pretrained(model, **options)
    except OSError:
        return None
