"""TRL's configuration of an asynchronous run."""

from __future__ import annotations

from typing import Any

from agentgym.trainers.config import TrainConfig


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
