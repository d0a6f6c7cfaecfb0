"""Continuous batching of transformers (`ContinuousBatchingManager`) as a contender of `inprocess_sampler_vs_vllm`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from transformers import ContinuousBatchingConfig, GenerationConfig

_PAGE = 32
"""Tokens of a page. Prefixes are reused by whole pages, of which the default is 256."""

_PASS = 512
"""New tokens in a pass. Every token of a pass is masked against every key, so the default of 8192 takes far longer."""


class ContinuousBatching:
    """A running manager that samples from a model at temperature 1, and gives log-probabilities.

    Args:
        manager: The manager.
    """

    def __init__(self, manager: Any):
        self.manager = manager
        self._given = 0

    def add(self, ids: Sequence[int], tokens: int) -> str:
        """Begin a turn of at most this many tokens; return its name."""
        self._given += 1
        name = f"turn {self._given}"
        self.manager.add_request(list(ids), request_id=name, max_new_tokens=tokens)
        return name

    def next(self) -> Any:
        """Wait for a turn that is over. Raises `RuntimeError` if it failed."""
        while (turn := self.manager.get_result(timeout=1)) is None:
            if not self.manager.is_running():
                raise RuntimeError("the manager stopped")
        if turn.error is not None:
            raise RuntimeError(turn.error)
        return turn


@contextmanager
def continuous_batching(model: Any, positions: int) -> Iterator[ContinuousBatching]:
    """Run a manager that remembers nothing yet, with room for this many positions.

    By default it would take 60% of the memory of the machine.
    """
    config = ContinuousBatchingConfig(
        page_size=_PAGE, num_blocks=-(-positions // _PAGE), max_batch_tokens=_PASS, return_logprobs=True, seed=0
    )
    # Nothing ends a turn but its length: that is 64 tokens for all contenders.
    drawing = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=-1)
    with model.continuous_batching_context_manager(
        generation_config=drawing, continuous_batching_config=config
    ) as manager:
        yield ContinuousBatching(manager)
