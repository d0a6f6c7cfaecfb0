"""Checks after each weight update that a vLLM engine samples from the new weights, and stops the run if it does not.

A lost update is otherwise silent: the engine samples from old weights, and the trainer corrects for a gap that grows
with every step. The check compares log-probabilities of some recent conversations: are the engine's closer to those of
the new weights, or of the old ones? It needs no threshold that depends on the model, its precision or its learning
rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from agentgym.base.errors import InfrastructureError, require
from agentgym.trainers import ranks
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.logbook.phases import DIAGNOSTICS, SYNC
from agentgym.trainers.logprobs import conversation_logprobs
from agentgym.trainers.sampled_batch import SampledBatch
from agentgym.trainers.trl_seam import around_syncs, engine_of

_CONVERSATIONS = 8
"""Number of conversations to compare."""

_TOKENS = 2048
"""Number of tokens of a conversation to compare; an engine holds the logits of all of them at once."""

_CLEARLY = 2.0
"""Factor between the two gaps that counts as evidence."""

_BROKEN = 0.3
"""Mean gap, in nats per token, beyond rounding errors."""

Score = Callable[[Sequence[list[int]]], torch.Tensor]
"""Maps conversations (token ids) to the log-probabilities of all their tokens but the first of each, in a row."""


class SyncVerdict(Enum):
    """The result of a comparison."""

    FRESH = "fresh"
    STALE = "stale"
    BROKEN = "broken"
    UNDECIDED = "undecided"
    """The weights have changed too little to decide."""


@dataclass(frozen=True)
class Gaps:
    """Mean differences between the engine's log-probabilities and those of the trainer, in nats per token."""

    to_new: float
    """With the weights that the engine should have."""
    to_old: float
    """With earlier weights."""

    @property
    def verdict(self) -> SyncVerdict:
        """Judge the engine."""
        if self.to_new > _CLEARLY * self.to_old:
            return SyncVerdict.STALE
        if self.to_new > _BROKEN:
            return SyncVerdict.BROKEN
        return SyncVerdict.FRESH if self.to_old > _CLEARLY * self.to_new else SyncVerdict.UNDECIDED


class SyncCheck:
    """Compares an engine with the model that it should sample from.

    Args:
        engine: Scores conversations with the engine.
        trainer: Scores conversations with the trainer's current weights.
        longest: Maximum number of tokens that the engine can score.
    """

    def __init__(self, engine: Score, trainer: Score, longest: int):
        self._engine, self._trainer, self._longest = engine, trainer, longest
        self._conversations: list[list[int]] = []
        self._before = torch.zeros(0)

    def remember(self, batch: SampledBatch) -> None:
        """Score some conversations with the current weights, unless an earlier comparison is still undecided.

        All processes must call this.
        """
        if self._conversations:
            return
        sampled = batch.tokens(_spread(batch.numbers))
        self._conversations = [(tokens.prompt_ids + tokens.completion_ids)[: self._longest] for tokens in sampled]
        if self._conversations:
            self._before = self._trainer(self._conversations)

    def after_update(self) -> None:
        """Compare; all processes must call this. Raises `InfrastructureError` if the engine has other weights."""
        gaps = [gap for gap in ranks.gather([self._gaps()]) if gap is not None]
        for gap in gaps:
            _refuse(gap)
        if gaps and all(gap.verdict is SyncVerdict.FRESH for gap in gaps):
            self._conversations = []

    def _gaps(self) -> Gaps | None:
        if not self._conversations:
            return None
        engine, now = self._engine(self._conversations), self._trainer(self._conversations)
        return Gaps(*((engine - other).abs().mean().item() for other in (now, self._before)))


def check_syncs(trainer: Any, before: Callable[[], None]) -> SyncCheck:
    """Make every weight update of a trainer's engine end with a check.

    Args:
        trainer: TRL's trainer, with vLLM in the same process.
        before: Called before each update; must leave the engine idle.
    """
    engine = engine_of(trainer)
    # vLLM samples at least one token after the scored ones.
    longest = min(_TOKENS, trainer.args.vllm_max_model_length - 1)
    check = SyncCheck(lambda ids: engine_scores(engine, ids), lambda ids: model_scores(trainer, ids), longest)
    clock = trainer.clock

    def begin() -> None:
        clock.begin(SYNC)
        before()

    def end() -> None:
        clock.end()
        with clock.phase(DIAGNOSTICS):
            check.after_update()

    around_syncs(trainer, begin, end)
    return check


def engine_scores(engine: Any, conversations: Sequence[list[int]]) -> torch.Tensor:
    """Return an idle engine's log-probabilities of the tokens of conversations."""
    require("vllm", "vllm")
    from vllm import SamplingParams  # type: ignore[import-not-found]

    params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
    for number, ids in enumerate(conversations):
        engine.add_request(f"score/{number}", {"prompt_token_ids": ids}, params)
    logprobs: dict[str, list[float]] = {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                chances = zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True)
                logprobs[output.request_id] = [chance[token].logprob for token, chance in chances]
    return torch.tensor([p for number in range(len(conversations)) for p in logprobs[f"score/{number}"]])


def model_scores(trainer: Any, conversations: Sequence[list[int]]) -> torch.Tensor:
    """Return the trainer's log-probabilities of the tokens of conversations. All processes must call this."""
    with trainer.accelerator.autocast():
        return torch.cat(conversation_logprobs(trainer.model, conversations))


def _spread(episodes: Sequence[EpisodeNumbers]) -> list[int]:
    """Return the positions of some episodes with sampled tokens, spread over the batch."""
    usable = [place for place, episode in enumerate(episodes) if episode.sampled_tokens and not episode.failed]
    return usable[:: max(1, len(usable) // _CONVERSATIONS)][:_CONVERSATIONS]


def _refuse(gaps: Gaps) -> None:
    evidence = f"its log-probabilities are {gaps.to_new:.2g} from the trainer's, {gaps.to_old:.2g} from those before"
    if gaps.verdict is SyncVerdict.STALE:
        raise InfrastructureError(
            f"the vLLM engine still samples from old weights: {evidence}. Either updates do not reach it, or LoRA "
            "adapters change bfloat16 weights by less than these can express; then set bf16: false"
        )
    if gaps.verdict is SyncVerdict.BROKEN:
        raise InfrastructureError(f"the vLLM engine does not sample from the trainer's weights: {evidence}")
