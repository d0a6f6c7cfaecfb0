"""Trajectory-level GRPO: runs rollouts for TRL's trainer and gives each sampled token the advantage of its turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from agentgym.base.errors import UsageError
from agentgym.core.trajectory import Trajectory
from agentgym.trainers import ranks
from agentgym.trainers.batches import Batch, TaskRow
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.sampled_batch import SampledBatch
from agentgym.trainers.scores import TrainerLogprobs, TrainerScores
from agentgym.trainers.shared_prefix import share_prefixes
from agentgym.trainers.staleness import loss_mask_of
from agentgym.trainers.trl_seam import GRPOConfig, TokenGRPOTrainer, loss_mask


class Rollouts(Protocol):
    """Runs a batch of trajectories for the trainer."""

    def __call__(self, rows: Sequence[TaskRow], step: int, *, training: bool, first: int = 0) -> Batch:
        """Return the groups of the rows; one trajectory with tokens per row, in the same order.

        Args:
            rows: This process's rows.
            step: Number of completed steps, each a batch of trajectories that the weights have learned from.
            training: Whether the model will learn from these trajectories.
            first: Position of the first of these rows in the batch of all processes.
        """
        ...


class AgentGRPOTrainer(TokenGRPOTrainer):
    """GRPO over multi-turn trajectories with per-turn credit.

    Args:
        rollouts: Runs the trajectories of a batch.
        credit: Turns their rewards into advantages.
        max_staleness: The staleness in steps up to which a token carries loss (`Generation.version`); by default any.
        on_batch: Called on every rank with the batch as it was sampled, before any group was replaced, and the number
            of completed steps, e.g. to log them.
        on_scores: Called on every rank with the trainer's log-probabilities of the trajectories in `scores.selected`,
            computed with the weights before the step's updates.
        kwargs: As for `GRPOTrainer`, without `reward_funcs`, `rollout_func`, `tools` and `environment_factory`.
    """

    def __init__(
        self,
        *,
        rollouts: Rollouts,
        credit: Credit,
        max_staleness: int | None = None,
        on_batch: Callable[[SampledBatch, int], None] | None = None,
        on_scores: Callable[[list[TrainerLogprobs]], None] | None = None,
        **kwargs: Any,
    ):
        refuse(kwargs["args"], kwargs)
        self._rollouts, self._credit, self._max_staleness = rollouts, credit, max_staleness
        self._on_batch, self._on_scores = on_batch, on_scores
        self._gap, self.scores = SamplerGap(), TrainerScores()
        self._sampled_at = -1
        """Number of updates of the weights that sampled the batch."""
        self._numbers: list[EpisodeNumbers] = []
        """Of the trajectories of all ranks that are learned from."""
        super().__init__(**kwargs)
        share_prefixes(self.accelerator.unwrap_model(self.model))

    def roll_out(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Run the trajectories of a batch (`TokenGRPOTrainer.roll_out`)."""
        self._sampled_at = self.updates
        trajectories = self._run_rollouts([TaskRow.of(row) for row in rows])
        completions = [completion_of(trajectory, self._oldest) for trajectory in trajectories]
        return {
            "prompt_ids": [(t.tokens.prompt_ids if t.tokens else None) or [0] for t in trajectories],
            "completion_ids": [ids for ids, _ in completions],
            "env_mask": [mask for _, mask in completions],
            "logprobs": [
                t.tokens.logprobs if t.tokens and t.tokens.logprobs else [0.0] * len(ids)
                for t, (ids, _) in zip(trajectories, completions, strict=True)
            ],
            "trajectory": trajectories,
            "paid": self._credit.logged_rewards(trajectories),
        }

    def complete_batch(self, batch: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Give each sampled token the advantage of its turn (`TokenGRPOTrainer.complete_batch`)."""
        trajectories: list[Trajectory] = [row["trajectory"] for row in rows]
        batch["advantages"] = self._token_advantages(trajectories, batch["completion_ids"]) * loss_mask(batch)
        batch["is_current"] = _sampled_by(self.step, trajectories, batch["completion_ids"])
        self.scores.begin(trajectories)
        batch["row"] = torch.arange(len(trajectories), device=batch["completion_ids"].device)
        _clear_unsampled(batch)
        if (logprobs := batch.get("old_per_token_logps")) is not None:  # where a batch has several updates
            self.scores.add(batch["row"], logprobs, loss_mask(batch))
        check_batch(trajectories, batch, self._oldest)

    @property
    def _oldest(self) -> int:
        """The oldest version whose tokens carry loss."""
        return 0 if self._max_staleness is None else self.step - self._max_staleness

    def use_logprobs(self, inputs: dict[str, Any], logprobs: torch.Tensor) -> None:
        """Record the trainer's log-probabilities, and how far they are from the sampler's."""
        if not self._is_training or self.updates != self._sampled_at:
            return  # later updates of a batch have other weights than those that sampled it
        mask = loss_mask(inputs)
        if inputs.get("old_per_token_logps") is None:
            self.scores.add(inputs["row"], logprobs, mask)
        sampled = inputs.get("sampling_per_token_logps")
        if sampled is not None:
            self._gap.add(logprobs, sampled, mask * inputs["is_current"])

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log what TRL logs, and the sampler's difference from the trainer on tokens of the current version.

        TRL's own difference with vLLM is on all tokens, so it grows with their staleness.
        """
        if (gaps := self._gap.take(ranks.gather)) is not None:
            for name, value in zip(("mean", "max"), gaps, strict=True):
                logs[f"sampling/current_logp_difference/{name}"] = None if math.isnan(value) else value  # type: ignore[assignment]
        if self._on_scores is not None:
            self._on_scores(ranks.gather(self.scores.take()))
        super().log(logs, start_time)

    def _token_advantages(self, trajectories: list[Trajectory], completion_ids: torch.Tensor) -> torch.Tensor:
        """Return advantages, `(rows, completion tokens)`: each turn's on its sampled tokens, 0 elsewhere."""
        per_turn = self._credit.advantages(self._numbers, group_numbers(self._numbers))  # a group may span ranks
        first = self.accelerator.process_index * len(trajectories)
        advantages = torch.zeros_like(completion_ids, dtype=torch.float32)
        for row, trajectory in enumerate(trajectories):
            spans = [turn.span for turn in trajectory.model_turns]
            for span, advantage in zip(spans, per_turn[first + row], strict=True):
                if span is not None:
                    advantages[row, span[0] : span[1]] = advantage
        return advantages

    def _run_rollouts(self, rows: Sequence[TaskRow]) -> list[Trajectory]:
        """Run the trajectories of a batch, and gather their numbers from all ranks."""
        # With several ranks, rank 0 pushes the weights to vLLM; the others must not sample before that is done.
        self.accelerator.wait_for_everyone()
        first = self.accelerator.process_index * len(rows)
        batch = self._rollouts(rows, self.step, training=self._is_training, first=first)
        trajectories = batch.trajectories
        if len(trajectories) != len(rows):
            raise RuntimeError(f"expected {len(rows)} trajectories, got {len(trajectories)}")
        sampled = [trajectory for played in batch.sampled for trajectory in played.trajectories]
        pairs = ranks.gather(
            [
                (EpisodeNumbers.of(before), EpisodeNumbers.of(after))
                for before, after in zip(sampled, trajectories, strict=True)
            ]
        )
        self._numbers = [after for _, after in pairs]
        if self._on_batch is not None:
            self._on_batch(SampledBatch([before for before, _ in pairs], sampled, first), self.step)
        return trajectories

    @property
    def _is_training(self) -> bool:
        return self.model is not None and self.model.training


class SamplerGap:
    """Difference between the sampler's and the trainer's log-probabilities of sampled tokens."""

    def __init__(self) -> None:
        self._sum, self._count, self._max = 0.0, 0, 0.0

    def add(self, trainer: torch.Tensor, sampler: torch.Tensor, mask: torch.Tensor) -> None:
        """Add some rows; all arguments are `(rows, completion tokens)`, and the mask is 1 at sampled tokens."""
        gaps = (trainer - sampler).abs()[mask.bool()]
        if gaps.numel():
            self._sum += gaps.sum().item()
            self._count += gaps.numel()
            self._max = max(self._max, gaps.max().item())

    def take(self, gather: Callable[[list[Any]], list[Any]]) -> tuple[float, float] | None:
        """Return the mean and the largest difference in nats since the last call; `None` without tokens.

        Args:
            gather: Concatenates the lists of all processes. All processes must call this.
        """
        parts = gather([(self._sum, self._count, self._max)])
        self._sum, self._count, self._max = 0.0, 0, 0.0
        sums, counts, largest = zip(*parts, strict=True)
        return (sum(sums) / sum(counts), max(largest)) if sum(counts) else None


def refuse(args: GRPOConfig, kwargs: dict[str, Any]) -> None:
    """Raise `UsageError` for settings that would silently discard turn credit."""
    if args.importance_sampling_level != "token":
        raise UsageError("importance_sampling_level must be 'token': 'sequence' averages turn credit away")
    if args.use_vllm and args.vllm_importance_sampling_mode != "token_truncate":
        raise UsageError(
            "vllm_importance_sampling_mode must be 'token_truncate': the ratio of a whole trajectory explodes"
        )
    if args.use_vllm and args.vllm_mode != "colocate":
        raise UsageError("vllm_mode must be 'colocate': the engine in the training process samples the turns")
    for name in ("tools", "environment_factory", "rollout_func", "reward_funcs"):
        if kwargs.get(name):
            raise UsageError(f"this trainer does not accept {name}=: TRL would run its own tool loop on top of ours")


def _clear_unsampled(batch: dict[str, Any]) -> None:
    """Set the log-probabilities of tokens that were not sampled to 0, as in the loss."""
    mask = loss_mask(batch)
    for name in ("old_per_token_logps", "ref_per_token_logps"):
        if name in batch:
            batch[name] = batch[name] * mask


def _sampled_by(version: int, trajectories: Sequence[Trajectory], like: torch.Tensor) -> torch.Tensor:
    """Return a mask of the tokens that a version sampled, of the shape of `like`: `(rows, completion tokens)`."""
    mask = torch.zeros_like(like)
    for row, trajectory in enumerate(trajectories):
        if trajectory.tokens is not None:
            versions = torch.tensor(trajectory.tokens.versions, device=mask.device)
            mask[row, : len(versions)] = versions == version
    return mask


def check_batch(trajectories: Sequence[Trajectory], batch: dict[str, Any], oldest: int = 0) -> None:
    """Check that the trainer learns from exactly the sampled tokens, and that no observation token carries loss."""
    mask = loss_mask(batch)
    for row, trajectory in enumerate(trajectories):
        ids, sampled = completion_of(trajectory, oldest)
        length = len(ids)
        if batch["completion_ids"][row, :length].tolist() != ids:
            raise RuntimeError(f"{trajectory.id}: the tokens to train on differ from the sampled tokens")
        if mask[row, :length].tolist() != sampled or bool(mask[row, length:].any()):
            raise RuntimeError(f"{trajectory.id}: a token that was not sampled would carry loss")
    if bool((batch["advantages"][mask == 0] != 0).any()):
        raise RuntimeError("an observation token has an advantage")


def completion_of(trajectory: Trajectory, oldest: int = 0) -> tuple[list[int], list[int]]:
    """Return a trajectory's completion ids and loss mask; one masked token if there is nothing to train on.

    Tokens of a version before `oldest` are masked.
    """
    tokens = trajectory.tokens
    if tokens is None or not tokens.completion_ids:
        return [0], [0]
    if trajectory.failed:
        return tokens.completion_ids, [0] * len(tokens.completion_ids)
    return tokens.completion_ids, loss_mask_of(tokens, oldest)
