"""Every place where this package relies on TRL beyond its public interface, each with its reason.

Other modules use public names of `trl` only. `tests/trainers/test_trl_seam.py` fails if that changes, or if a new
release of TRL changes what this module relies on.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback, TrainerState

# Reason: `rollout_func` is marked as experimental, and TRL warns of it in every run. Unnecessary once it is stable.
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import trl.trainer.utils as trl_utils
from trl.trainer import grpo_trainer
from trl.trainer.grpo_config import GRPOConfig as GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from agentgym.base.errors import UsageError
from agentgym.trainers.micro_batches import TensorBatch, UpdateTotals, loss_mask, micro_batches, scored
from agentgym.trainers.run_folder import step_of

_STATE = "trainer_state.json"
_NO_LABEL = -100
_ENGINE_CLASS = "LLM"
_SKIPS_UNLABELLED = "_use_triton"


class TokenGRPOTrainer(GRPOTrainer):
    """TRL's trainer with the hooks that credit per token needs: subclasses implement them with public names only.

    Each overridden method names the hook that TRL would have to offer instead.
    """

    def __init__(self, **kwargs: Any):
        self._dataset_rows: Sequence[Mapping[str, Any]] = ()
        self._rolled_out: dict[str, Any] = {}
        self._loss_inputs: TensorBatch | None = None
        self._loss_scores: Any = ()
        score_labels_only()
        super().__init__(reward_funcs=[_paid], rollout_func=_roll_out, **kwargs)
        self._replace_entropy_bonus()
        self._report_steps()

    # Steps and updates. TRL counts each update of the weights as a step, here a step is a batch of trajectories.

    @property
    def updates(self) -> int:
        """Number of updates of the weights so far; TRL's `global_step`."""
        return self.state.global_step

    @property
    def updates_per_step(self) -> int:
        """Updates of the weights that learn from one batch of trajectories."""
        args: Any = self.args
        return args.num_iterations * args.steps_per_generation // args.gradient_accumulation_steps

    @property
    def step(self) -> int:
        """Number of completed steps: batches of trajectories that the weights have learned from."""
        return self.updates // self.updates_per_step

    @contextmanager
    def _counted_in_steps(self) -> Iterator[None]:
        """Let TRL's counter show steps."""
        updates = self.updates
        self.state.global_step = self.step
        try:
            yield
        finally:
            self.state.global_step = updates

    def _report_steps(self) -> None:
        """Let the callbacks for saved checkpoints see steps, as their folders are named."""
        handler: Any = self.callback_handler
        report = handler.on_save

        def on_save(*args: Any) -> Any:
            with self._counted_in_steps():
                return report(*args)

        handler.on_save = on_save

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log to TRL's history and to TensorBoard and the like, by step."""
        with self._counted_in_steps():
            super().log(logs, start_time)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        # Reason: TRL names the folder of a checkpoint after its counter, and has no setting for the name.
        # Unnecessary once it has.
        with self._counted_in_steps():
            super()._save_checkpoint(*args, **kwargs)

    def resume(self, checkpoint: Path) -> None:
        """Train from a checkpoint on, with the settings of this trainer instead of those in the checkpoint."""
        resume_with_own_settings(self, checkpoint, self.updates_per_step)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write nothing: TRL's card says little about a model, and the run writes one (`logbook.card`)."""

    # Hooks.

    def roll_out(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what TRL's `rollout_func` returns for some rows of the dataset, one entry per row in each list.

        `paid` holds the reward that TRL logs for each row, `None` for a failed episode. `needed` is false for rows
        that no pass has to compute: their gradient is 0, and nobody reads their log-probabilities.
        """
        raise NotImplementedError

    def complete_batch(self, batch: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Change a batch before it is learned from.

        Args:
            batch: The tensors of the batch; `advantages` is `(rows,)` and may become `(rows, completion tokens)`.
            rows: The rows of the dataset, with the other columns that `roll_out` returned.
        """
        raise NotImplementedError

    def use_logprobs(self, inputs: dict[str, Any], logprobs: torch.Tensor) -> None:
        """Receive the log-probabilities `(rows, completion tokens)` that the loss of `inputs` uses.

        The loss is computed afterwards, so `inputs["advantages"]` may still change.
        """
        raise NotImplementedError

    # Overridden methods of TRL.

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        # Reason: `rollout_func` receives the prompts but no other column of the dataset, so the rows are stored for it;
        # and TRL computes advantages per trajectory, from `paid`, which are discarded here.
        # Unnecessary once `rollout_func` receives its rows (trl#4824) and advantages have a hook (trl#7291).
        self._dataset_rows = inputs
        batch = super()._generate_and_score_completions(inputs)
        if batch["advantages"].dim() != 1:
            raise RuntimeError(
                "this version of TRL returns advantages of another shape; agentgym needs trl>=1.16,<1.17"
            )
        batch["needed"] = torch.tensor(self._rolled_out["needed"], device=batch["advantages"].device)
        self.complete_batch(batch, inputs)
        return batch

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        # Reason: TRL splits a batch into equal parts, all of them as wide as its longest row.
        # Unnecessary once TRL has a hook for that.
        with _split_by(self._micro_batches):
            return super()._prepare_inputs(generation_batch)

    def _micro_batches(self, batch: TensorBatch) -> list[TensorBatch]:
        """Return the micro-batches of a batch, with the same passes for all its epochs."""
        args: Any = self.args
        passes: int = args.gradient_accumulation_steps
        updates: int = args.steps_per_generation // passes
        rows = len(batch["needed"])
        order = range(rows) if updates == 1 else torch.randperm(rows).tolist()
        share = rows // updates
        return micro_batches(
            batch,
            [order[start : start + share] for start in range(0, rows, share)],
            passes,
            lambda counts: self.accelerator.reduce(counts, "sum"),  # type: ignore[arg-type, return-value]
        )

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss; tokens without loss are not scored (see `without_labels`)."""
        self._loss_inputs = inputs = {**inputs}  # TRL keeps its own for the next epoch
        try:
            with without_labels(model, loss_mask(inputs)), self._metrics_of(inputs):
                loss = super().compute_loss(model, inputs, *args, **kwargs)
            return self._over_the_update(loss, inputs) if "totals" in inputs else loss
        finally:
            self._loss_inputs, self._loss_scores = None, ()

    def _over_the_update(self, loss: torch.Tensor, inputs: TensorBatch) -> torch.Tensor:
        """Return the micro-batch's part of the loss over an update, whose gradient is a mean over processes."""
        # Reason: TRL's mean over a micro-batch depends on how an update is divided among passes and processes.
        # Unnecessary once TRL counts the rows and tokens of an update.
        totals: UpdateTotals = inputs["totals"]
        mask, passes = loss_mask(inputs), self.current_gradient_accumulation_steps
        processes = self.accelerator.num_processes
        _, entropies, balance = self._loss_scores
        other = 0.0 if balance is None else self.router_aux_loss_coef * balance / passes
        if (share := totals.share(self.loss_type, mask)) is not None:
            loss = (loss - other) * share * passes * processes + other
        if self.entropy_coef and not self.use_adaptive_entropy and entropies is not None:
            loss = loss - self.entropy_coef * (entropies * mask).sum() * processes / max(1, totals.tokens)
        return loss

    def _replace_entropy_bonus(self) -> None:
        # Reason: TRL's bonus is a mean over a micro-batch too. Unnecessary as above.
        self._entropy_bonus_enabled = self.use_adaptive_entropy

    @contextmanager
    def _metrics_of(self, inputs: TensorBatch) -> Iterator[None]:
        """Let TRL log the metrics of a pass whose rows may differ in number among processes, or be fillers only."""
        # Reason: TRL gathers one number per row, and logs means over passes, also over those without a row.
        # Unnecessary once it gathers the extremes of the numbers, and weighs the passes.
        logged: Any = self._metrics
        metrics, accelerator = logged["train"], self.accelerator
        gather = accelerator.gather
        if accelerator.num_processes > 1:
            accelerator.gather = lambda rows: gather(accelerator.pad_across_processes(rows, pad_index=math.nan))  # type: ignore[arg-type, method-assign]
        if inputs.get("is_idle"):
            logged["train"] = defaultdict(list)
        try:
            yield
        finally:
            logged["train"], accelerator.gather = metrics, gather  # type: ignore[method-assign]

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> Any:
        # Reason: the weights that correct for the sampler come from the log-probabilities of the loss; computing them
        # again would cost a forward pass. Before it learns from a batch, TRL scores all of its rows as wide as the
        # longest.
        # Unnecessary once TRL corrects for every sampler, or has a callback for these; and a hook for passes.
        if self._loss_inputs is None:
            return self._scores_of_batch(model, input_ids, attention_mask, logits_to_keep), None, None
        score = super()._get_per_token_logps_and_entropies
        self._loss_scores = score(model, input_ids, attention_mask, logits_to_keep, *args, **kwargs)
        if bool(loss_mask(self._loss_inputs).any()):
            self.use_logprobs(self._loss_inputs, self._loss_scores[0].detach())
        return self._loss_scores

    def _scores_of_batch(self, model: Any, ids: torch.Tensor, mask: torch.Tensor, width: int) -> torch.Tensor:
        """Return log-probabilities of a batch, `(rows, completion tokens)`: 0 without loss, NaN in rows not needed."""
        score = super()._get_per_token_logps_and_entropies

        def of(part: TensorBatch) -> torch.Tensor:
            whole = [torch.cat([part[f"prompt_{name}"], part[f"completion_{name}"]], dim=1) for name in ("ids", "mask")]
            with without_labels(model, loss_mask(part)):
                return score(model, *whole, part["completion_ids"].shape[1])[0]

        sampled = pad_sequence([torch.tensor(row) for row in self._rolled_out["env_mask"]], batch_first=True)
        batch = {
            "prompt_ids": ids[:, :-width],
            "completion_ids": ids[:, -width:],
            "prompt_mask": mask[:, :-width],
            "completion_mask": mask[:, -width:],
            "tool_mask": sampled.to(ids.device),
        }
        needed = [row for row, is_needed in enumerate(self._rolled_out["needed"]) if is_needed]
        args: Any = self.args
        return scored(batch, needed, -(-len(ids) // args.per_device_train_batch_size), of)


def resume_with_own_settings(trainer: Any, checkpoint: Path, updates_per_step: int) -> None:
    """Let a trainer of TRL continue from a checkpoint, with its own settings instead of those in the checkpoint.

    Args:
        trainer: The trainer.
        checkpoint: A folder whose name ends with the number of completed steps.
        updates_per_step: What TRL counts as steps, per step of ours.
    """
    # Reason: TRL prefers the learning rate, the weight decay and the intervals of a checkpoint to its own settings,
    # and continues its count of updates. Unnecessary once its own settings count.
    path = checkpoint / _STATE
    if trainer.is_world_process_zero():
        state = TrainerState.load_from_json(str(path))
        state.global_step = step_of(checkpoint) * updates_per_step
        state.logging_steps, state.save_steps = trainer.args.logging_steps, trainer.args.save_steps
        unfinished = path.with_suffix(".tmp")
        state.save_to_json(str(unfinished))
        unfinished.replace(path)
    trainer.accelerator.wait_for_everyone()
    trainer.add_callback(_OwnSettings())
    trainer.train(resume_from_checkpoint=str(checkpoint))


class _OwnSettings(TrainerCallback):
    """Gives an optimizer that was loaded from a checkpoint the settings of its trainer."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        optimizer = kwargs["optimizer"]
        schedule = getattr(kwargs["lr_scheduler"], "scheduler", kwargs["lr_scheduler"])  # within accelerate's
        if not hasattr(schedule, "lr_lambdas"):
            return  # DeepSpeed keeps its own
        schedule.last_epoch = state.global_step
        schedule.base_lrs = [args.learning_rate] * len(schedule.base_lrs)
        decays = (args.weight_decay, 0.0)  # of matrices, and of biases and norms
        for group, factor, decay in zip(optimizer.param_groups, schedule.lr_lambdas, decays, strict=False):
            group["initial_lr"], group["weight_decay"] = args.learning_rate, decay
            group["lr"] = args.learning_rate * factor(state.global_step)
        schedule._last_lr = [group["lr"] for group in optimizer.param_groups]  # the one that the next log shows


def dataset_of(rows: Sequence[Mapping[str, Any]]) -> Dataset:
    """Return a dataset of rows for the trainer.

    TRL requires the column `prompt`, which is empty: `roll_out` receives all other columns.
    """
    return Dataset.from_list([{"prompt": "", **row} for row in rows])


def _roll_out(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """TRL's `rollout_func`."""
    trainer._rolled_out = trainer.roll_out(trainer._dataset_rows)
    return trainer._rolled_out


def _paid(paid: list[float | None], **_: Any) -> list[float | None]:
    """TRL's reward function, which logs its values as `rewards/_paid`."""
    return paid


@contextmanager
def _split_by(split: Callable[[TensorBatch], list[TensorBatch]]) -> Iterator[None]:
    """Split batches into micro-batches by calling `split` (see `_prepare_inputs`)."""
    module: Any = grpo_trainer
    theirs = module.shuffle_sequence_dict, module.split_tensor_dict
    module.shuffle_sequence_dict, module.split_tensor_dict = (lambda batch: batch), (lambda batch, _: split(batch))
    try:
        yield
    finally:
        module.shuffle_sequence_dict, module.split_tensor_dict = theirs


# The fused language-model head.


def score_labels_only() -> None:
    """Let TRL's fused head skip positions without a label on every device, as it does on GPUs."""
    # Reason: on a CPU, TRL scores every position and then discards those without a label, so that the head takes longer
    # than all layers of a small model. Unnecessary once TRL skips them on CPUs too.
    setattr(trl_utils, _SKIPS_UNLABELLED, lambda device: True)


@contextmanager
def without_labels(model: Any, mask: torch.Tensor) -> Iterator[None]:
    """Remove labels where a mask is 0, so that those positions score 0.

    Args:
        model: The model that TRL calls.
        mask: `(rows, last positions)`: 1 where a label stays.
    """

    # Reason: for GRPO, TRL labels observations too; this relies on the arguments of its calls to the fused head.
    # Unnecessary once TRL applies `tool_mask` to the labels.
    def remove(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        labels = kwargs.get("labels")
        if labels is None or not kwargs.get("fused_lm_head"):
            return args, kwargs
        labels = labels.clone()
        labels[:, -mask.shape[1] :].masked_fill_(mask == 0, _NO_LABEL)
        return args, {**kwargs, "labels": labels}

    hook = model.register_forward_pre_hook(remove, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def fused_head(model: Any, temperature: float) -> Iterator[None]:
    """Within this context, `model(labels=..., fused_lm_head=True)` scores tokens without the logits of all positions.

    Args:
        model: A model of transformers, without its adapters and wrappers.
        temperature: Divides the logits.
    """
    # Reason: the head that TRL adds for training has one temperature. Unnecessary once it takes that as an argument.
    before = vars(model).get("forward")
    trl_utils.add_fused_lm_head(model, temperature)
    try:
        yield
    finally:
        del model.forward
        if before is not None:
            model.forward = before


# The vLLM engine.


@contextmanager
def engine_made_by(make: Callable[[Any, dict[str, Any]], Any]) -> Iterator[None]:
    """Within this context, TRL makes its engine by calling `make(vllm.LLM, arguments)`."""
    # Reason: TRL passes few settings on to vLLM; missing are the precision, the tokenizer's absence, what a CPU needs.
    # Unnecessary once `GRPOConfig` takes arguments for the engine.
    from trl.generation import vllm_generation

    module: Any = vllm_generation
    engine_class = getattr(module, _ENGINE_CLASS, None)  # absent where a stand-in makes the engine
    setattr(module, _ENGINE_CLASS, lambda **arguments: make(engine_class, arguments))
    try:
        yield
    finally:
        setattr(module, _ENGINE_CLASS, engine_class)


def engine_of(trainer: Any) -> Any:
    """Return the vLLM engine in the trainer's process."""
    # Reason: turns are sampled one by one, with the engine's own request interface, which TRL does not expose.
    # Unnecessary once TRL passes its engine to `rollout_func`.
    return trainer.vllm_generation.llm.llm_engine


def sync_engine(trainer: Any) -> None:
    """Pass the trainer's weights on to its engine."""
    # Reason: the evaluations before and after training happen outside TRL's steps. Unnecessary once TRL has a method
    # for that.
    trainer.vllm_generation.sync_weights()


def push_copies(trainer: Any, weights: Callable[[Any, Any], Iterator[tuple[str, torch.Tensor]]]) -> None:
    """Pass on what `weights(model, gathered)` yields to the trainer's engine, instead of what TRL would.

    `gathered(parameters)` is a context in which parameters are whole under ZeRO-3.
    """
    # Reason: TRL merges adapters into the frozen weights and subtracts them again, which changes bfloat16 weights at
    # every update (trl#6688). Unnecessary once TRL passes on copies, or the adapters alone (trl#5975).
    generation = trainer.vllm_generation
    if generation._dist.fsdp_version == 1:
        raise UsageError("FSDP 1 has no single weights to pass on to vLLM; set fsdp_version: 2 (trainers/recipes)")
    generation._iter_named_params = lambda: weights(generation.model, generation._dist.gather_params)


def around_syncs(trainer: Any, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call functions before and after each time that TRL passes weights on to its engine."""
    # Reason: an update that is lost must stop the run. Unnecessary once TRL has callbacks for weight updates.
    generation = trainer.vllm_generation
    sync = generation.sync_weights

    def checked() -> None:
        before()
        sync()
        after()

    generation.sync_weights = checked
