"""The settings of an asynchronous run: what it refuses, and TRL's configuration of it. Imports no torch by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentgym.base.errors import UsageError

if TYPE_CHECKING:
    from agentgym.trainers.config import TrainConfig

LOSSES = ("dapo", "grpo", "dr_grpo")
"""The losses that are TRL's asynchronous loss with other weights of the episodes."""


def refuse_async(settings: Mapping[str, Any]) -> None:
    """Raise `UsageError` for settings that an asynchronous run does not have; by the names of `TrainConfig`."""
    for problem, is_given in _problems(settings):
        if is_given:
            raise UsageError(f"asynchronous training: {problem}")


def _problems(settings: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    loss = settings["loss"]
    yield "there is no reference model; set kl_weight: 0", settings["kl_weight"] != 0
    yield "there is no entropy bonus; set entropy_weight: 0", settings["entropy_weight"] != 0
    yield f"the loss is one of {', '.join(LOSSES)}, not {loss!r}", loss not in LOSSES
    yield "a step is one update; set updates_per_step: 1, and groups to its groups", settings["updates_per_step"] > 1
    yield "every group is learned from once; set epochs_per_step: 1", settings["epochs_per_step"] > 1
    yield "vLLM servers sample, not an engine in the trainer's process; set use_vllm: false", settings["use_vllm"]
    yield "episodes run ahead up to max_staleness; set ahead: 0", settings["ahead"] > 0
    given = ", ".join(name for name in ("trl", "vllm", "model_kwargs") if settings[name])
    yield f"no arguments are passed on to libraries; leave out {given}", bool(given)
    many = len(settings["servers"]) > 1
    yield "only adapters reach several servers; set lora_rank, or name one server", many and not settings["lora_rank"]
    yield (
        "a step's groups are sampled before the last update; set max_staleness: 1 or more",
        not settings["max_staleness"],
    )


def token_budget(config: TrainConfig) -> int:
    """Return the most tokens in a forward pass: those of `micro_batch` conversations."""
    return (config.micro_batch or config.group_size) * config.context


def async_config(config: TrainConfig, *, urls: list[str], use_cpu: bool) -> Any:
    """Return TRL's configuration."""
    from agentgym.trainers.async_seam import AsyncGRPOConfig
    from agentgym.trainers.precision import training_dtype
    from agentgym.trainers.versions import checkpointing

    return AsyncGRPOConfig(
        output_dir=str(config.folder),
        seed=config.seed,
        use_cpu=use_cpu,
        bf16=config.bf16,
        dtype=str(training_dtype(config.bf16, config.lora_rank)).removeprefix("torch."),
        **checkpointing(config.gradient_checkpointing),
        # A step is what `StepTrainer.next_step` returns.
        per_device_train_batch_size=1,
        gradient_accumulation_steps=1,
        num_generations=config.group_size,
        max_steps=config.steps,
        max_completion_length=config.context,
        token_budget=token_budget(config),
        max_staleness=config.max_staleness,
        temperature=config.temperature,
        vllm_server_base_url=urls[0],
        # Optimisation.
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.1},
        warmup_steps=config.warmup_steps,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        epsilon=config.clip_low,
        epsilon_high=config.clip_high,
        # Records.
        logging_steps=1,
        save_strategy="steps",
        save_steps=config.save_every,
        save_total_limit=config.keep_checkpoints,
        report_to=config.report_to,
        disable_tqdm=True,
        remove_unused_columns=False,
    )
