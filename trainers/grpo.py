"""Trajectory-level GRPO: runs rollouts for TRL's trainer and gives each sampled token the advantage of its turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from agentgym.base.errors import UsageError
from agentgym.core.trajectory import Trajectory
from agentgym.trainers import ranks
from agentgym.trainers.batches import Batch, TaskRow
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.importance import SamplerGap, importance_weights
from agentgym.trainers.logbook.phases import DIAGNOSTICS, IDLE, ROLLOUTS, PhaseClock
from agentgym.trainers.micro_batches import loss_mask
from agentgym.trainers.sampled_batch import SampledBatch
from agentgym.trainers.scores import TrainerLogprobs, TrainerScores
from agentgym.trainers.shared_prefix import share_prefixes
from agentgym.trainers.staleness import loss_mask_of
from agentgym.trainers.trl_seam import GRPOConfig, TokenGRPOTrainer


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
        clock: Measures the phases of each step.
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
        clock: PhaseClock | None = None,
        **kwargs: Any,
    ):
        refuse(kwargs["args"], kwargs)
        self._rollouts, self._credit, self._max_staleness = rollouts, credit, max_staleness
        self._on_batch, self._on_scores = on_batch, on_scores
        self.clock = clock or PhaseClock()
        self._gap, self.scores = SamplerGap(), TrainerScores()
        self._numbers: list[EpisodeNumbers] = []
        """Of the trajectories of all ranks that are learned from."""
        self._advantages: list[list[float]] = []
        """One for each turn of this rank's trajectories."""
        self._completions: list[tuple[list[int], list[int]]] = []
        """Of this rank's trajectories (`completion_of`)."""
        super().__init__(**kwargs)
        share_prefixes(self.accelerator.unwrap_model(self.model))

    def roll_out(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Run the trajectories of a batch (`TokenGRPOTrainer.roll_out`)."""
        trajectories = self._run_rollouts([TaskRow.of(row) for row in rows])
        groups = group_numbers(self._numbers)  # a group may span ranks
        first = self.accelerator.process_index * len(trajectories)
        own = slice(first, first + len(trajectories))
        self._advantages = self._credit.advantages(self._numbers, groups)[own]
        trained = self._credit.trained_turns(self._numbers, groups)[own]
        self._completions = [
            completion_of(t, turns, self._oldest) for t, turns in zip(trajectories, trained, strict=True)
        ]
        masks = [mask for _, mask in self._completions]
        return {
            "prompt_ids": [(t.tokens.prompt_ids if t.tokens else None) or [0] for t in trajectories],
            "completion_ids": [ids for ids, _ in self._completions],
            "env_mask": masks,
            "logprobs": [
                t.tokens.logprobs if t.tokens and t.tokens.logprobs else [0.0] * len(ids)
                for t, (ids, _) in zip(trajectories, self._completions, strict=True)
            ],
            "needed": [
                any(mask) and (self._has_other_terms or any(advantages) or t.id in self.scores.selected)
                for t, advantages, mask in zip(trajectories, self._advantages, masks, strict=True)
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
        if (logprobs := batch.get("old_per_token_logps")) is not None:  # where a batch has several updates
            self._weigh(batch, logprobs)
        check_batch(trajectories, self._completions, batch)

    @property
    def _oldest(self) -> int:
        """The oldest version whose tokens carry loss."""
        return 0 if self._max_staleness is None else self.step - self._max_staleness

    def use_logprobs(self, inputs: dict[str, Any], logprobs: torch.Tensor) -> None:
        """Weigh the tokens of a batch with a single update, in which the weights are those that sampled it."""
        if inputs.get("old_per_token_logps") is None:
            self._weigh(inputs, logprobs)

    def _weigh(self, inputs: dict[str, Any], logprobs: torch.Tensor) -> None:
        """Correct the loss for the difference between sampler and trainer; record both.

        Args:
            inputs: Rows of a batch.
            logprobs: The trainer's log-probabilities `(rows, completion tokens)`, with the weights that sampled them.
        """
        if (sampled := inputs.get("sampling_per_token_logps")) is None:
            return
        mask = loss_mask(inputs) * inputs["needed"][:, None]  # other rows have no log-probabilities
        weights = importance_weights(logprobs, sampled, mask)
        self.scores.add(inputs["row"], logprobs, mask)
        self._gap.add(logprobs, sampled, weights, mask * inputs["is_current"])
        if self.loss_type == "vespo":  # not proportional to the advantages; TRL's formula has a place for the weights
            inputs["importance_sampling_ratio"] = weights
        else:
            inputs["advantages"] = inputs["advantages"] * weights

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log what TRL logs, and the sampler's difference from the trainer on tokens of the current weights."""
        logs.update(self._gap.take(ranks.gather))  # type: ignore[arg-type]
        if self._on_scores is not None:
            with self.clock.phase(DIAGNOSTICS):
                self._on_scores(ranks.gather(self.scores.take()))
        super().log(logs, start_time)

    def _token_advantages(self, trajectories: list[Trajectory], completion_ids: torch.Tensor) -> torch.Tensor:
        """Return advantages, `(rows, completion tokens)`: each turn's on its sampled tokens, 0 elsewhere."""
        advantages = torch.zeros_like(completion_ids, dtype=torch.float32)
        for row, trajectory in enumerate(trajectories):
            spans = [turn.span for turn in trajectory.model_turns]
            for span, advantage in zip(spans, self._advantages[row], strict=True):
                if span is not None:
                    advantages[row, span[0] : span[1]] = advantage
        return advantages

    def _run_rollouts(self, rows: Sequence[TaskRow]) -> list[Trajectory]:
        """Run the trajectories of a batch, and gather their numbers from all ranks."""
        # With several ranks, rank 0 pushes the weights to vLLM; the others must not sample before that is done.
        with self.clock.phase(IDLE):
            self.accelerator.wait_for_everyone()
        ranks.report(f"sampling for step {self.step + 1}")
        first = self.accelerator.process_index * len(rows)
        with self.clock.phase(ROLLOUTS):
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
        ranks.report(f"learning in step {self.step + 1}")
        self._numbers = [after for _, after in pairs]
        if self._on_batch is not None:
            with self.clock.phase(DIAGNOSTICS):
                self._on_batch(SampledBatch([before for before, _ in pairs], sampled, first), self.step)
        return trajectories

    @property
    def _has_other_terms(self) -> bool:
        """Whether the loss has terms besides the advantages."""
        return bool(self.beta or self.entropy_coef or self.use_adaptive_entropy)

    @property
    def _is_training(self) -> bool:
        return self.model is not None and self.model.training


def refuse(args: GRPOConfig, kwargs: dict[str, Any]) -> None:
    """Raise `UsageError` for settings that would silently discard turn credit."""
    if args.importance_sampling_level != "token":
        raise UsageError("importance_sampling_level must be 'token': 'sequence' averages turn credit away")
    if args.use_vllm and args.vllm_importance_sampling_correction:
        raise UsageError("vllm_importance_sampling_correction must be False: this trainer corrects for every sampler")
    if args.use_vllm and args.vllm_mode != "colocate":
        raise UsageError("vllm_mode must be 'colocate': the engine in the training process samples the turns")
    for name in ("tools", "environment_factory", "rollout_func", "reward_funcs"):
        if kwargs.get(name):
            raise UsageError(f"this trainer does not accept {name}=: TRL would run its own tool loop on top of ours")


def _sampled_by(version: int, trajectories: Sequence[Trajectory], like: torch.Tensor) -> torch.Tensor:
    """Return a mask of the tokens that a version sampled, of the shape of `like`: `(rows, completion tokens)`."""
    mask = torch.zeros_like(like)
    for row, trajectory in enumerate(trajectories):
        if trajectory.tokens is not None:
            versions = torch.tensor(trajectory.tokens.versions, device=mask.device)
            mask[row, : len(versions)] = versions == version
    return mask


def check_batch(
    trajectories: Sequence[Trajectory], completions: Sequence[tuple[list[int], list[int]]], batch: dict[str, Any]
) -> None:
    """Check that the trainer learns from exactly the trained tokens, and that no observation token carries loss.

    Args:
        trajectories: One for each row.
        completions: Their completion ids and loss masks (`completion_of`).
        batch: The batch.
    """
    mask = loss_mask(batch)
    for row, (trajectory, (ids, trained)) in enumerate(zip(trajectories, completions, strict=True)):
        length = len(ids)
        if batch["completion_ids"][row, :length].tolist() != ids:
            raise RuntimeError(f"{trajectory.id}: the tokens to train on differ from the sampled tokens")
        if mask[row, :length].tolist() != trained or bool(mask[row, length:].any()):
            raise RuntimeError(f"{trajectory.id}: a token that was not sampled would carry loss")
    if bool((batch["advantages"][mask == 0] != 0).any()):
        raise RuntimeError("an observation token has an advantage")


def completion_of(trajectory: Trajectory, trained: Sequence[bool], oldest: int = 0) -> tuple[list[int], list[int]]:
    """Return a trajectory's completion ids and loss mask; one masked token if there is nothing to train on.

    Args:
        trajectory: The trajectory.
        trained: Whether each turn of the model carries loss.
        oldest: The oldest version of the weights whose tokens carry loss.
    """
    tokens = trajectory.tokens
    if tokens is None or not tokens.completion_ids:
        return [0], [0]
    fresh, mask = loss_mask_of(tokens, oldest), [0] * len(tokens.completion_ids)
    for turn, is_trained in zip(trajectory.model_turns, trained, strict=True):
        if is_trained and turn.span is not None:
            mask[slice(*turn.span)] = fresh[slice(*turn.span)]
    return tokens.completion_ids, mask
