"""Continuous batching of transformers (`ContinuousBatchingManager`) as a contender of `inprocess_sampler_vs_vllm`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from transformers import ContinuousBatchingConfig, GenerationConfig

_PAGE = 32
"""Tokens per page. Only whole pages of a prefix are reused; the default is 256."""

_PASS = 512
"""New tokens per pass. Each is masked against every key, so the default of 8192 is far slower."""


class ContinuousBatching:
    """A running manager that samples from a model at temperature 1, and gives log-probabilities.

    Args:
        manager: The manager.
    """

    def __init__(self, manager: Any):
        self.manager = manager
        self._requests = 0

    def add(self, ids: Sequence[int], tokens: int) -> str:
        """Start a turn of at most `tokens` tokens; return its name."""
        self._requests += 1
        name = f"turn {self._requests}"
        self.manager.add_request(list(ids), request_id=name, max_new_tokens=tokens)
        return name

    def next(self) -> Any:
        """Wait for a finished turn. Raises `RuntimeError` if it failed."""
        while (turn := self.manager.get_result(timeout=1)) is None:
            if not self.manager.is_running():
                raise RuntimeError("the manager stopped")
        if turn.error is not None:
            raise RuntimeError(turn.error)
        return turn


@contextmanager
def continuous_batching(model: Any, positions: int) -> Iterator[ContinuousBatching]:
    """Run a manager with an empty cache of `positions` tokens; by default it would use 60% of the machine's memory."""
    config = ContinuousBatchingConfig(
        page_size=_PAGE, num_blocks=-(-positions // _PAGE), max_batch_tokens=_PASS, return_logprobs=True, seed=0
    )
    # Only the length limit ends a turn, as for all contenders.
    drawing = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=-1)
    with model.continuous_batching_context_manager(
        generation_config=drawing, continuous_batching_config=config
    ) as manager:
        yield ContinuousBatching(manager)
