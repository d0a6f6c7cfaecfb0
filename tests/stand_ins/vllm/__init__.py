"""Stands in for vLLM where the sampler's speed does not matter: what training uses of its interface, over transformers.

Put `tests/stand_ins` on the path. Like vLLM, an engine loads its own weights, and follows the trainer's only as far as
these are passed on to it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

__version__ = "0.31.0"

_NAMES = {
    "_custom_ops": (),
    "distributed.weight_transfer.nccl_common": ("trainer_init",),
    "distributed.weight_transfer.packed_tensor": ("packed_nccl_broadcast_producer",),
    "model_executor.layers.utils": (),
    "sampling_params": ("StructuredOutputsParams",),
    "utils.network_utils": ("get_ip",),
}
"""Modules and names that TRL imports and does not use here, and those that training on a CPU changes."""


def _add_modules() -> None:
    for path, names in _NAMES.items():
        module = sys.modules[__name__]
        for part in path.split("."):
            name = f"{module.__name__}.{part}"
            within, module = module, sys.modules.setdefault(name, ModuleType(name))
            setattr(within, part, module)
        for known in names:
            setattr(module, known, None)


_add_modules()


class SamplingParams(SimpleNamespace):
    """The settings of a request."""

    prompt_logprobs: int | None = None


class RequestOutput(SimpleNamespace):
    """The tokens sampled for a request."""


class LLM:
    """An engine of a checkpoint's folder."""

    def __init__(self, *, model: str, dtype: str, max_model_len: int, **_: Any):
        self.llm_engine = Engine(_loaded(model, dtype), max_model_len)

    def reset_prefix_cache(self) -> None:
        """Do nothing."""


def _loaded(folder: str, dtype: str) -> Any:
    """Return a model with the weights of a checkpoint; transformers would load none where FSDP provides them."""
    model: Any = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    weights = load_file(Path(folder) / "model.safetensors")
    assert not model.load_state_dict(weights, strict=False).unexpected_keys
    return model.to(getattr(torch, dtype)).eval()


class Engine:
    """Samples one token for each request in every step."""

    def __init__(self, model: Any, context: int):
        self._model = model
        self._running: dict[str, tuple[list[int], Any, list[tuple[int, float]]]] = {}
        self.model_config = SimpleNamespace(max_model_len=context)
        runner = SimpleNamespace(model=SimpleNamespace(load_weights=self._load))
        self.model_executor = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))

    @torch.no_grad()
    def _load(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        own = dict(self._model.named_parameters())
        for name, weight in weights:
            own[name].copy_(weight)

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        assert request_id not in self._running
        self._running[request_id] = (list(prompt["prompt_token_ids"]), params, [])

    def abort_request(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self._running.pop(request_id, None)

    def has_unfinished_requests(self) -> bool:
        return bool(self._running)

    @torch.inference_mode()
    def step(self) -> list[RequestOutput]:
        outputs = [self._advanced(request_id, *request) for request_id, request in list(self._running.items())]
        for output in outputs:
            if output.finished:
                del self._running[output.request_id]
        return outputs

    def _advanced(self, request_id: str, prompt: list[int], params: Any, turn: list[tuple[int, float]]) -> Any:
        if params.prompt_logprobs is not None:
            return self._scored(request_id, prompt)
        logits = self._model(input_ids=torch.tensor([prompt + [token for token, _ in turn]])).logits[0, -1].float()
        logprobs = torch.log_softmax(logits / params.temperature, dim=-1)
        draw = torch.Generator().manual_seed(params.seed + len(turn))
        token = int(torch.multinomial(logprobs.exp(), 1, generator=draw))
        turn.append((token, logprobs[token].item()))
        stopped = token in params.stop_token_ids
        sampled = SimpleNamespace(
            token_ids=tuple(token for token, _ in turn),
            logprobs=[{token: SimpleNamespace(logprob=logprob)} for token, logprob in turn],
            finish_reason="stop" if stopped else "length",
        )
        finished = stopped or len(turn) >= params.max_tokens
        return RequestOutput(request_id=request_id, finished=finished, outputs=[sampled])

    def _scored(self, request_id: str, prompt: list[int]) -> Any:
        """Return the log-probabilities of a prompt's tokens."""
        logprobs = torch.log_softmax(self._model(input_ids=torch.tensor([prompt])).logits[0, :-1].float(), dim=-1)
        pairs = zip(prompt[1:], logprobs, strict=True)
        chances = [{token: SimpleNamespace(logprob=row[token].item())} for token, row in pairs]
        return RequestOutput(
            request_id=request_id, finished=True, prompt_token_ids=prompt, prompt_logprobs=[None, *chances]
        )
