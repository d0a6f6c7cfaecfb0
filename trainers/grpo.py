"""Trajectory-level GRPO: a thin subclass of TRL's `GRPOTrainer`.

`rollout_func` runs the rollout engine, and one overridden method turns TRL's scalar advantages into per-token ones.
Only this file uses TRL's private names; `tests/trainers/test_trl_seam.py` fails if a new TRL changes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch
from accelerate.utils import gather_object

from agentgym.errors import UsageError
from agentgym.trainers.batches import Batch, Row
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.lm_head import score_labels_only, without_labels
from agentgym.trainers.scores import Scored, TrainerScores
from agentgym.trainers.shared_prefix import share_prefixes
from agentgym.trajectory import Trajectory

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]
from trl.trainer import grpo_trainer


class Rollouts(Protocol):
    """Runs a batch of trajectories for the trainer."""

    def __call__(self, rows: Sequence[Row], version: int, *, training: bool, first: int = 0) -> Batch:
        """Return the groups of the rows; one trajectory with tokens per row, in the same order.

        Args:
            rows: This process's rows.
            version: Number of weight updates so far.
            training: Whether the model will learn from these trajectories.
            first: Position of the first of these rows in the batch of all processes.
        """
        ...


class AgentGRPOTrainer(GRPOTrainer):
    """GRPO over multi-turn trajectories with per-turn credit.

    Args:
        rollouts: Runs the trajectories of a batch.
        credit: Turns their rewards into advantages.
        on_batch: Called on every rank with the trajectories of all ranks as they were sampled, before any group was
            replaced, and the number of weight updates so far, e.g. to log them.
        on_scores: Called on every rank with the trainer's log-probabilities of the trajectories in `scores.wanted`,
            once they are known: those of the weights that sampled them.
        kwargs: As for `GRPOTrainer`, without `reward_funcs`, `rollout_func`, `tools` and `environment_factory`.
    """

    def __init__(
        self,
        *,
        rollouts: Rollouts,
        credit: Credit,
        on_batch: Callable[[list[Trajectory], int], None] | None = None,
        on_scores: Callable[[list[Scored]], None] | None = None,
        **kwargs: Any,
    ):
        refuse(kwargs["args"], kwargs)
        self._rollouts, self._credit = rollouts, credit
        self._on_batch, self._on_scores = on_batch, on_scores
        self._gap, self.scores = SamplerGap(), TrainerScores()
        self._compared: dict[str, Any] | None = None
        """The rows whose loss is being computed, if they are scored with the weights that sampled them."""
        self._sampled_at = -1
        """The update before which the batch was sampled."""
        score_labels_only()
        super().__init__(reward_funcs=[_paid], rollout_func=_roll_out, **kwargs)
        share_prefixes(self.accelerator.unwrap_model(self.model))

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        args: Any = self.args
        one_update = args.steps_per_generation == args.gradient_accumulation_steps and self.num_iterations == 1
        # Rows of a group begin alike, and a micro-batch computes once what its rows have in common. TRL shuffles them
        # so that several updates of a batch differ; a single one adds them all up.
        with _rows_in_order() if one_update else nullcontext():
            return super()._prepare_inputs(generation_batch)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._sampled_at = self.state.global_step
        output = super()._generate_and_score_completions(inputs)
        if output["advantages"].dim() != 1:
            raise RuntimeError(
                "this version of TRL returns advantages of another shape; agentgym needs trl>=1.16,<1.17"
            )
        trajectories: list[Trajectory] = [row["trajectory"] for row in inputs]
        output["advantages"] = self._token_advantages(trajectories, output["completion_ids"])
        self.scores.begin(trajectories)
        output["row"] = torch.arange(len(trajectories), device=output["completion_ids"].device)
        _clear_unsampled(output)
        if (known := output.get("old_per_token_logps")) is not None:  # where a batch has several updates
            self.scores.add(output["row"], known, output["completion_mask"] * output["tool_mask"])
        check_batch(trajectories, output)
        return output

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        # Later updates of a batch have other weights than those that sampled it.
        is_first = self._is_training and self.state.global_step == self._sampled_at
        self._compared = inputs if is_first else None
        try:
            with without_labels(model, inputs["completion_mask"] * inputs["tool_mask"]):
                return super()._compute_loss(model, inputs)
        finally:
            self._compared = None

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        scores = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._compared is not None:
            self._compare(self._compared, scores[0].detach())
        return scores

    def _compare(self, rows: dict[str, Any], logprobs: torch.Tensor) -> None:
        """Note what the trainer makes of sampled tokens, and how far that is from the sampler."""
        mask = rows["completion_mask"] * rows["tool_mask"]
        if rows.get("old_per_token_logps") is None:
            self.scores.add(rows["row"], logprobs, mask)
        sampled = rows.get("sampling_per_token_logps")
        if sampled is not None and not self.use_vllm:  # with vLLM, TRL reports the gap itself
            self._gap.add(logprobs, sampled, mask)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log what TRL logs; and without vLLM, under the same names, how far the sampler is from the trainer."""
        if not self.use_vllm and (found := self._gap.take(gather_object)) is not None:
            for name, value in zip(("mean", "max"), found, strict=True):
                self._metrics["train"][f"sampling/sampling_logp_difference/{name}"] = [value]
        if self._on_scores is not None:
            self._on_scores(gather_object(self.scores.take()))
        super().log(logs, start_time)

    def _token_advantages(self, trajectories: list[Trajectory], completion_ids: torch.Tensor) -> torch.Tensor:
        """Return advantages, `(rows, completion tokens)`: each turn's on its sampled tokens, 0 elsewhere."""
        everyone: list[Trajectory] = gather_object(trajectories)  # a group may span several ranks
        per_turn = self._credit.advantages(everyone, group_numbers(everyone))
        first = self.accelerator.process_index * len(trajectories)
        advantages = torch.zeros_like(completion_ids, dtype=torch.float32)
        for row, trajectory in enumerate(trajectories):
            spans = [turn.span for turn in trajectory.model_turns]
            for span, advantage in zip(spans, per_turn[first + row], strict=True):
                if span is not None:
                    advantages[row, span[0] : span[1]] = advantage
        return advantages

    def run_rollouts(self, rows: Sequence[Row]) -> list[Trajectory]:
        """Run the trajectories of a batch."""
        # In vLLM server mode, rank 0 pushes the weights; the other ranks must not sample before it is done.
        self.accelerator.wait_for_everyone()
        first = self.accelerator.process_index * len(rows)
        batch = self._rollouts(rows, self.state.global_step, training=self._is_training, first=first)
        trajectories = batch.trajectories
        if len(trajectories) != len(rows):
            raise RuntimeError(f"expected {len(rows)} trajectories, got {len(trajectories)}")
        if self._on_batch is not None:
            sampled = [trajectory for played in batch.sampled for trajectory in played.trajectories]
            self._on_batch(gather_object(sampled), self.state.global_step)
        return trajectories

    @property
    def _is_training(self) -> bool:
        return self.model is not None and self.model.training

    def episode_rewards(self, trajectories: list[Trajectory]) -> list[float | None]:
        """Return the reward that TRL logs for each trajectory; `None` for a failed one."""
        return self._credit.logged_rewards(trajectories)


@contextmanager
def _rows_in_order() -> Iterator[None]:
    """Keep TRL from shuffling the rows of a batch."""
    module: Any = grpo_trainer
    shuffle = module.shuffle_sequence_dict
    module.shuffle_sequence_dict = lambda batch: batch
    try:
        yield
    finally:
        module.shuffle_sequence_dict = shuffle


class SamplerGap:
    """How far the sampler's log-probabilities of sampled tokens are from those with which the trainer learns."""

    def __init__(self) -> None:
        self._sum, self._count, self._max = 0.0, 0, 0.0

    def add(self, trainer: torch.Tensor, sampler: torch.Tensor, mask: torch.Tensor) -> None:
        """Compare some rows; all arguments are `(rows, completion tokens)`, and the mask is 1 at sampled tokens."""
        gaps = (trainer - sampler).abs()[mask.bool()]
        if gaps.numel():
            self._sum += gaps.sum().item()
            self._count += gaps.numel()
            self._max = max(self._max, gaps.max().item())

    def take(self, gather: Callable[[list[Any]], list[Any]]) -> tuple[float, float] | None:
        """Return the mean and the largest difference in nats since the last time, `None` if there were no tokens.

        Args:
            gather: Joins the lists of all processes, all of which must call this.
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
            "vllm_importance_sampling_mode must be 'token_truncate': the product over a trajectory explodes"
        )
    if args.use_vllm and args.vllm_mode != "colocate":
        raise UsageError("vllm_mode must be 'colocate': the engine in the training process samples the turns")
    for name in ("tools", "environment_factory", "rollout_func", "reward_funcs"):
        if kwargs.get(name):
            raise UsageError(f"this trainer does not accept {name}=: TRL would run its own tool loop on top of ours")


def _clear_unsampled(batch: dict[str, Any]) -> None:
    """Set log-probabilities of tokens that were not sampled to 0, which is what the loss will find for them."""
    mask = batch["completion_mask"] * batch["tool_mask"]
    for name in ("old_per_token_logps", "ref_per_token_logps"):
        if name in batch:
            batch[name] = batch[name] * mask


def check_batch(trajectories: Sequence[Trajectory], batch: dict[str, Any]) -> None:
    """Check that the trainer learns from exactly the sampled tokens, and that no observation token carries loss."""
    mask = batch["completion_mask"] * batch["tool_mask"]
    for row, trajectory in enumerate(trajectories):
        ids, sampled = completion_of(trajectory)
        length = len(ids)
        if batch["completion_ids"][row, :length].tolist() != ids:
            raise RuntimeError(f"{trajectory.id}: the tokens to train on differ from the sampled tokens")
        if mask[row, :length].tolist() != sampled or bool(mask[row, length:].any()):
            raise RuntimeError(f"{trajectory.id}: a token that was not sampled would carry loss")
    if bool((batch["advantages"][mask == 0] != 0).any()):
        raise RuntimeError("an observation token has an advantage")


def completion_of(trajectory: Trajectory) -> tuple[list[int], list[int]]:
    """Return a trajectory's completion ids and loss mask; one masked token if there is nothing to train on."""
    tokens = trajectory.tokens
    if tokens is None or not tokens.completion_ids:
        return [0], [0]
    if trajectory.failed:
        return tokens.completion_ids, [0] * len(tokens.completion_ids)
    return tokens.completion_ids, tokens.loss_mask


def _roll_out(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """TRL's `rollout_func`: one row per prompt, in the same order."""
    trajectories = trainer.run_rollouts([Row.of(prompt) for prompt in prompts])
    completions = [completion_of(trajectory) for trajectory in trajectories]
    return {
        "prompt_ids": [(t.tokens.prompt_ids if t.tokens else None) or [0] for t in trajectories],
        "completion_ids": [ids for ids, _ in completions],
        "env_mask": [mask for _, mask in completions],
        "logprobs": [
            t.tokens.logprobs if t.tokens and t.tokens.logprobs else [0.0] * len(ids)
            for t, (ids, _) in zip(trajectories, completions, strict=True)
        ],
        "trajectory": trajectories,
        "paid": trainer.episode_rewards(trajectories),
    }


def _paid(paid: list[float | None], **_: Any) -> list[float | None]:
    """TRL's reward function: the rewards by which the credit compares trajectories."""
    return paid
