"""Every place where this package relies on TRL's asynchronous trainer, each with its reason.

In TRL 1.16 that trainer is experimental; from 1.18 on, it is stable as `trl.AsyncGRPOTrainer`, and this module is what
has to change. `tests/trainers/test_async_seam.py` has a test per private name.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from trl.experimental.async_grpo import async_grpo_trainer, packing
from trl.experimental.async_grpo.async_grpo_config import AsyncGRPOConfig as AsyncGRPOConfig
from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample as RolloutSample
from trl.experimental.async_grpo.packing import TREE_ATTENTION
from trl.experimental.async_grpo.packing import TreeRow as TreeRow
from trl.experimental.async_grpo.vllm_client import VLLMClient

from agentgym.base.errors import UsageError
from agentgym.trainers import ranks
from agentgym.trainers.asynchronous.attention import Attention, attend_by_blocks, attend_by_path
from agentgym.trainers.trl_seam import dataset_of, resume_with_own_settings
from agentgym.trainers.vllm.server_policy import Adapters

_log = logging.getLogger(__name__)
_FLASH = "_flash_attn"


@dataclass(frozen=True)
class PackedStep:
    """What one update learns from."""

    micro_batches: Sequence[Sequence[TreeRow]]
    """Each has a row for each process."""
    tokens: float
    """The sum of the loss over all tokens is divided by this."""


class StepTrainer(AsyncGRPOTrainer):
    """TRL's asynchronous trainer, whose updates learn from exactly what `next_step` returns.

    Args:
        urls: The vLLM servers.
        adapters: Where the adapters are published; `None` if all weights are trained.
        rollout_worker: As for TRL.
        kwargs: As for TRL, without `train_dataset`, `reward_funcs`, `tools` and `environment_factory`.

    Raises:
        UsageError: The servers or the model do not fit.
    """

    def __init__(self, *, urls: Sequence[str], adapters: Adapters | None, rollout_worker: Any, **kwargs: Any):
        with _without_cuda(), _clients_of(urls, takes_adapters=adapters is not None), _explained():
            super().__init__(train_dataset=dataset_of([{"row": 0}]), rollout_worker=rollout_worker, **kwargs)
        self.attention = register_attention()
        """The name of the attention in use."""
        for module in self.model.modules():  # type: ignore[union-attr]
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0  # as in sampling
        if adapters is not None:
            self._publish_in(adapters, has_transfer="weight_transfer" in kwargs)

    def _publish_in(self, adapters: Adapters, *, has_transfer: bool) -> None:
        # Reason: TRL names adapters and their folder itself, the same for every run, while a server that outlives a run
        # keeps its adapters. Unnecessary once the names are settings.
        if not self._lora_sync and not has_transfer:
            raise UsageError(
                "a vLLM server does not take the run's adapters; start each without --data-parallel-size, with "
                "--enable-lora and in an environment with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
            )
        self._lora_name, self._lora_dir = adapters.name, str(adapters.folder)

    # Hooks.

    def next_step(self) -> PackedStep:
        """Wait for what the next update learns from. Called on the main process."""
        raise NotImplementedError

    def use_logprobs(self, inputs: dict[str, Any], logprobs: torch.Tensor) -> None:
        """Receive the log-probabilities `(tokens,)` of a micro-batch, in the order of its `old_log_probs`."""
        raise NotImplementedError

    # Steps and versions.

    @property
    def step(self) -> int:
        """Number of completed steps."""
        return self.state.global_step

    def begin_at(self, step: int) -> None:
        """Number the weights by the steps that they have learned from, beginning with `step`."""
        # Reason: TRL publishes the first weights as the version after `model_version`, in a resumed run too.
        # Unnecessary once its versions count steps.
        self.model_version = step - 1

    def resume(self, checkpoint: Path) -> None:
        """Train from a checkpoint on, with the settings of this trainer instead of those in the checkpoint."""
        resume_with_own_settings(self, checkpoint, updates_per_step=1)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write nothing: the run writes a card (`logbook.card`)."""

    # Overridden methods of TRL and transformers.

    def get_train_dataloader(self) -> Any:
        """Return the steps.

        TRL cuts its queue into micro-batches of one size, wherever a group or a step ends, and reads one ahead.
        """
        # Reason for `_rollout_dataset`: TRL reports the time that it waited there. For `_metrics`: what the collator
        # and this class measure is logged from there. Unnecessary once a step can be an exact number of groups.
        loader = _Steps(self, self._collator())
        self._rollout_dataset = loader
        return loader

    def _collator(self) -> Callable[[Any], dict[str, Any]]:
        return async_grpo_trainer.DataCollatorForRollout(
            self.processing_class.pad_token_id,  # type: ignore[union-attr]
            self.accelerator.num_processes,
            metrics=self._metrics["train"],
        )

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Learn from the micro-batches of a step; their gradients are added up."""
        losses = []
        micro_batches = inputs["micro_batches"]
        for number, batch in enumerate(micro_batches, start=1):
            is_last = number == len(micro_batches)
            with nullcontext() if is_last else self.accelerator.no_sync(model):
                losses.append(super().training_step(model, batch, num_items_in_batch))
        return torch.stack(losses).sum()

    def floating_point_ops(self, inputs: Any) -> int:
        """Return 0: a step is not one batch, and TRL measures the speed itself."""
        return 0

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss, and pass the log-probabilities on."""

        def use(module: Any, arguments: Any, outputs: Any) -> None:
            # Reason: computing them again would cost a forward pass. This relies on the fused head's output.
            # Unnecessary once TRL has a callback for them.
            kept = inputs["token_index"][inputs["token_index"] >= 0]
            self.use_logprobs(inputs, outputs.log_probs.detach().flatten()[kept])

        hook = model.register_forward_hook(use)
        try:
            return super().compute_loss(model, inputs, *args, **kwargs)
        finally:
            hook.remove()


class _Steps:
    """Yields steps to the training loop: on each process, its rows of each micro-batch."""

    def __init__(self, trainer: StepTrainer, collate: Callable[[Any], dict[str, Any]]):
        self._trainer, self._collate = trainer, collate
        self.wait_s = 0.0
        """Seconds of waiting for episodes since TRL has asked last."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        place = self._trainer.accelerator.process_index
        while True:
            began = time.perf_counter()
            step = self._trainer.next_step() if self._trainer.is_world_process_zero() else None
            self.wait_s += time.perf_counter() - began
            batches = None if step is None else [self._batch(rows, step.tokens) for rows in step.micro_batches]
            batches = ranks.from_main(batches) if ranks.world_size() > 1 else batches or []
            yield {"micro_batches": [{name: x[place : place + 1] for name, x in batch.items()} for batch in batches]}

    def _batch(self, rows: Sequence[TreeRow], tokens: float) -> dict[str, torch.Tensor]:
        """Return the tensors of a micro-batch, one row for each process.

        TRL divides the loss by the tokens of the micro-batch; this makes it the share of a step.
        """
        batch = self._collate([rows])
        batch["advantages"] *= batch["global_n_tokens"][0] / tokens
        own = [torch.tensor([bool(sample["is_fresh"]) for sample in row.samples]) for row in rows]
        batch["is_fresh"] = torch.stack([fresh[ids] for fresh, ids in zip(own, batch["segment_id"], strict=True)])
        return batch


class AdapterServers(VLLMClient):
    """TRL's client for several servers at once that take adapters.

    A server that does not answer gets the adapters from the policy once it is back. Nothing pauses: a new adapter has a
    new name, and turns that are being sampled keep theirs.
    """

    def __init__(self, urls: Sequence[str], server_timeout: float):
        super().__init__(urls[0], server_timeout)
        self._all = [VLLMClient(url, server_timeout) for url in urls]

    def wait_for_server_ready(self, *args: Any, **kwargs: Any) -> None:
        """Wait until every server answers."""
        for server in self._all:
            server.wait_for_server_ready(*args, **kwargs)

    def load_lora_adapter(self, *args: Any, **kwargs: Any) -> None:
        """Load an adapter on every server."""
        self._each("load_lora_adapter", *args, **kwargs)

    def unload_lora_adapter(self, *args: Any, **kwargs: Any) -> None:
        """Unload an adapter on every server."""
        self._each("unload_lora_adapter", *args, **kwargs)

    def pause(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def resume(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def _each(self, name: str, *args: Any, **kwargs: Any) -> None:
        for server in self._all:
            try:
                getattr(server, name)(*args, **kwargs)
            except OSError as error:
                _log.warning("%s does not answer (%s); it gets the adapter later", server.server_url, error)


def register_attention() -> str:
    """Choose the attention of packed rows for this machine, and return its name.

    That is TRL's FlashAttention 3 if it can be loaded, otherwise one of `asynchronous.attention`.
    """
    # Reason: TRL has no other attention than FlashAttention 3 for its rows, and no setting. Unnecessary once it has.
    attention, name = _chosen()
    if attention is not None:
        AttentionInterface.register(TREE_ATTENTION, attention)
    return name


def _chosen() -> tuple[Attention | None, str]:
    if not torch.cuda.is_available():
        return attend_by_path, "SDPA by path"
    try:
        getattr(packing, _FLASH)()
    except Exception as error:  # the package is missing, the hub cannot be reached, or the GPU is too old
        _log.info("FlashAttention 3 cannot be loaded: %s", error)
        return attend_by_blocks, "FlexAttention"
    return None, "FlashAttention 3"


@contextmanager
def _without_cuda() -> Iterator[None]:
    """Let TRL start on a machine without CUDA."""
    # Reason: TRL asks CUDA for the device's name to know its peak speed. Unnecessary once it asks only if there is one.
    module: Any = async_grpo_trainer
    peak = module.get_peak_flops_per_device
    if not torch.cuda.is_available():
        module.get_peak_flops_per_device = lambda *args: None
    try:
        yield
    finally:
        module.get_peak_flops_per_device = peak


@contextmanager
def _clients_of(urls: Sequence[str], *, takes_adapters: bool) -> Iterator[None]:
    """Let TRL make a client for all servers."""
    # Reason: TRL knows one server. Unnecessary once it takes several addresses, or a client.
    module: Any = async_grpo_trainer
    client = module.VLLMClient
    if takes_adapters:
        module.VLLMClient = lambda url, timeout: AdapterServers(urls, timeout)
    try:
        yield
    finally:
        module.VLLMClient = client


@contextmanager
def _explained() -> Iterator[None]:
    """Turn TRL's complaints about a model or a server into `UsageError`."""
    try:
        yield
    except (ValueError, NotImplementedError, ImportError, TimeoutError) as error:
        raise UsageError(f"asynchronous training: {' '.join(str(error).split())}") from error
