"""`AgentAsyncTrainer`: GRPO over multi-turn trajectories that are played while it learns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from agentgym.trainers import ranks
from agentgym.trainers.async_seam import PackedStep, StepTrainer
from agentgym.trainers.asynchronous.playing import Played
from agentgym.trainers.asynchronous.steps import packed, step_samples
from agentgym.trainers.asynchronous.worker import EngineWorker
from agentgym.trainers.batches import check_some_real


@dataclass(frozen=True)
class StepSettings:
    """What a step consists of."""

    groups: int
    refill_rounds: int
    """How many times a step may take further groups in place of those without reward differences."""
    max_staleness: int
    loss: str
    context: int
    budget: int
    """Most tokens in a forward pass."""


class AgentAsyncTrainer(StepTrainer):
    """TRL's asynchronous trainer on trajectories with per-turn credit.

    Args:
        settings: What a step consists of.
        on_step: Called on the main process with the groups of a step and metrics, before it is learned from.
        rollout_worker: Has the episodes played; `None` on other processes than the main one.
        kwargs: As for `StepTrainer`.
    """

    def __init__(
        self,
        *,
        settings: StepSettings,
        rollout_worker: EngineWorker | None,
        on_step: Callable[[Sequence[Played], dict[str, float]], None] | None = None,
        **kwargs: Any,
    ):
        self._settings, self._on_step, self._episodes = settings, on_step, rollout_worker
        self._gaps: list[torch.Tensor] = []
        """Differences between the sampler's and the trainer's log-probabilities, since the last log."""
        self._began_at: float | None = None
        super().__init__(rollout_worker=rollout_worker, **kwargs)

    def next_step(self) -> PackedStep:
        """Wait for the groups of a step (`StepTrainer.next_step`)."""
        settings, began = self._settings, time.perf_counter()
        groups = [*self._take_step()]
        check_some_real([played.group for played in groups])
        sampled = step_samples(groups, self.step, settings.max_staleness, settings.loss, settings.context)
        while not sampled.samples:  # no token of the groups may be in the loss
            groups += self._take_instead(groups[-1:])
            sampled = step_samples(groups, self.step, settings.max_staleness, settings.loss, settings.context)
        waited = time.perf_counter() - began
        step = packed(sampled, self.accelerator.num_processes, settings.budget)
        positions = sum(len(row.tokens) for rows in step.micro_batches for row in rows)
        metrics = {
            **sampled.staleness.metrics,
            "positions_per_real_token": positions / sampled.real_tokens,
            **self._idle(began, waited),
        }
        if self._on_step is not None:
            self._on_step(groups, metrics)
        return step

    def _take(self, count: int) -> list[Played]:
        assert self._episodes is not None, "only the main process takes groups"
        return self._episodes.take(count)

    def _take_step(self) -> list[Played]:
        """Take the groups of a step; with refill rounds, groups without differences do not count."""
        settings = self._settings
        groups = latest = self._take(settings.groups)
        for _ in range(settings.refill_rounds):
            flat = [played for played in latest if not any(map(any, played.advantages))]
            if not flat:
                break
            latest = self._take_instead(flat)
            groups = [*groups, *latest]
        return groups

    def _take_instead(self, useless: Sequence[Played]) -> list[Played]:
        """Take as many other groups."""
        assert self._episodes is not None, "only the main process takes groups"
        self._episodes.pass_over(played.number for played in useless)
        return self._take(len(useless))

    def _idle(self, began: float, waited: float) -> dict[str, float]:
        """Return the seconds of waiting, and their share of the time since the last step began."""
        before, self._began_at = self._began_at, began + waited
        shares = {} if before is None else {"idle_share": waited / (began + waited - before)}
        return {"waited_s": waited, **shares}

    def use_logprobs(self, inputs: dict[str, Any], logprobs: torch.Tensor) -> None:
        """Compare the log-probabilities of tokens with those of the sampler, if it had the same weights."""
        kept = (inputs["token_index"] >= 0) & inputs["is_fresh"]
        fresh = inputs["is_fresh"][inputs["token_index"] >= 0]
        self._gaps.append((logprobs[fresh] - inputs["old_log_probs"][kept]).abs().float().cpu())

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log what TRL logs, and the sampler's difference from the trainer under the names of the other trainer."""
        gaps = torch.cat([*ranks.gather(self._gaps), torch.zeros(0)])
        self._gaps = []
        if gaps.numel():
            logs["sampling/sampling_logp_difference/mean"] = gaps.mean().item()
            logs["sampling/sampling_logp_difference/max"] = gaps.max().item()
        super().log(logs, start_time)
