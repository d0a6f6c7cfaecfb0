"""Derives the configuration of TRL and the rollouts from a `TrainConfig`."""

from __future__ import annotations

from functools import partial
from typing import Any

from accelerate import DistributedType
from transformers.integrations.integration_utils import get_reporting_integration_callbacks

from agentgym.base.errors import UsageError
from agentgym.core.making import closed_after, make_env, with_strict
from agentgym.core.rewards import Scheme
from agentgym.core.task import TEST, TRAIN, TaskSource, check_split, default_split
from agentgym.rollout import Breaker, EnvFactory, Failures, Limits
from agentgym.trainers.adapters import lora
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import Credit
from agentgym.trainers.passed_on import check_kinds, kinds_of
from agentgym.trainers.policies import dialect_of
from agentgym.trainers.trl_seam import GRPOConfig
from agentgym.trainers.versions import checkpointing


def env_factory(config: TrainConfig) -> EnvFactory:
    """Return the factory of the run's environments, in the dialect of its model."""
    kwargs = with_strict(config.env, config.env_kwargs, config.strict)
    return EnvFactory(config.env, {**kwargs, "dialect": dialect_of(config)})


def probe(factory: EnvFactory) -> tuple[TaskSource, Scheme]:
    """Return the tasks and the reward scheme of an environment. Raises `UsageError` if it cannot be created."""
    with closed_after(make_env(factory.env_id, factory.kwargs)) as env:
        return env.tasks, env.scheme


def eval_split_of(config: TrainConfig, source: TaskSource) -> str:
    """Return the split of held-out tasks. Raises `UsageError` if the tasks have no other split to train on."""
    if TRAIN not in source.splits:
        raise UsageError(
            f"no split {TRAIN!r} to train on, only {', '.join(source.splits)}; if the tasks come from files, "
            "divide them with --set split_by=hash"
        )
    split = check_split(source, config.eval_split or default_split(source, TEST))
    if split == TRAIN and config.eval_split is None:
        raise UsageError(
            f"no split besides {TRAIN!r} to evaluate on; divide the tasks (--set split_by=hash, if they come "
            f"from files), or pass --eval-split {TRAIN}"
        )
    return split


def credit_of(config: TrainConfig, scheme: Scheme) -> Credit:
    """Return the run's credit assignment."""
    return Credit(
        mode=config.credit,
        scheme=scheme,
        scale_by_std=config.scale_by_std,
        turn_weight=config.turn_weight,
        negative_weight=config.negative_weight,
        at_least=config.at_least,
        train_on_truncated=config.train_on_truncated,
    )


def limits_of(config: TrainConfig) -> Limits:
    """Return the limits of the run's rollouts."""
    return Limits(
        max_new_tokens=config.max_new_tokens,
        max_tokens=config.max_tokens,
        generation_timeout_s=config.generation_timeout_s,
        reset_timeout_s=config.reset_timeout_s,
        step_timeout_s=config.step_timeout_s,
        tool_timeout_s=config.tool_timeout_s,
        episode_timeout_s=config.episode_timeout_s,
        max_in_flight=config.max_in_flight,
        strict=config.strict,
    )


def failures_of(config: TrainConfig) -> Failures:
    """Return how a run handles failed episodes."""
    return Failures(at_least=config.at_least, breaker=Breaker(config.outage))


def grpo_config(config: TrainConfig, world_size: int, use_cpu: bool) -> GRPOConfig:
    """Return TRL's configuration.

    Raises:
        UsageError: The batch cannot be divided among the devices.
    """
    share, rest = divmod(config.batch // config.updates_per_step, world_size)
    if rest:
        raise UsageError(f"the share of an update must be a multiple of the number of devices ({world_size})")
    name = "ahead" if config.ahead else "refill_rounds"
    if getattr(config, name) and config.groups % world_size:
        raise UsageError(
            f"{name} needs whole groups on each of the {world_size} devices: make groups ({config.groups}) a multiple "
            f"of that, or set {name}: 0"
        )
    micro = config.micro_batch or share
    if share % micro:
        raise UsageError(f"the share of a device in an update ({share}) must be a multiple of micro_batch ({micro})")
    updates = config.updates_per_step * config.epochs_per_step
    configured = partial(
        GRPOConfig,
        output_dir=str(config.folder),
        seed=config.seed,
        use_cpu=use_cpu,
        bf16=config.bf16,
        disable_dropout=True,  # as in sampling
        **checkpointing(config.gradient_checkpointing),
        # One generation batch, divided into `updates_per_step` updates, and those into micro batches.
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=share // micro,
        steps_per_generation=config.updates_per_step * share // micro,
        num_iterations=config.epochs_per_step,
        num_generations=config.group_size,
        max_steps=config.steps * updates,
        max_completion_length=config.context,
        # Optimisation.
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.1},
        warmup_steps=config.warmup_steps * updates,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        loss_type=config.loss,
        epsilon=config.clip_low,
        epsilon_high=config.clip_high,
        beta=config.kl_weight,
        entropy_coef=config.entropy_weight,
        temperature=config.temperature,
        # Credit per turn needs ratios per token; the ratio of a whole trajectory explodes.
        importance_sampling_level="token",
        # `AgentGRPOTrainer` corrects for every sampler, without TRL's pass for the old log-probabilities.
        vllm_importance_sampling_correction=False,
        scale_rewards="none",
        mask_truncated_completions=False,
        use_vllm=config.use_vllm,
        vllm_mode="colocate",
        vllm_gpu_memory_utilization=config.vllm_memory or 0.3,  # see `vllm.memory`
        vllm_max_model_length=config.context if config.use_vllm else None,
        # Records.
        logging_steps=updates,
        save_strategy="steps",
        save_steps=config.save_every * updates,
        save_total_limit=config.keep_checkpoints,
        report_to=config.report_to,
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=not use_cpu,
        shuffle_dataset=False,
    )
    # Arguments of our schedule fit no other one.
    own_schedule = {"lr_scheduler_kwargs": None} if "lr_scheduler_type" in config.trl else {}
    return configured(**{**own_schedule, **config.trl})


def check_trl(config: TrainConfig) -> None:
    """Raise `UsageError` if TRL has no argument that `trl` names, or it has another type."""
    if config.trl:
        check_kinds("trl", config.trl, kinds_of(GRPOConfig))


def check_reports(config: TrainConfig) -> None:
    """Raise `UsageError` if TRL does not support an integration in `report_to`, or its package is missing."""
    names = [name for name in config.report_to if name not in ("all", "none")]
    try:
        for callback in get_reporting_integration_callbacks(names):
            callback()
    except (ValueError, RuntimeError, ImportError) as error:
        raise UsageError(f"report_to: {error}") from error


def refuse_sharded(config: TrainConfig, accelerator: Any) -> None:
    """Raise `UsageError` if weights are sharded and no process could sample from the whole model."""
    plugin = getattr(accelerator.state, "deepspeed_plugin", None)
    is_sharded = accelerator.distributed_type == DistributedType.FSDP or (plugin is not None and plugin.zero_stage == 3)
    if is_sharded and not config.use_vllm:
        raise UsageError("with FSDP or ZeRO-3, no process has the whole model to sample from; set use_vllm: true")
    if is_sharded and config.track_kl and not config.lora_rank:
        raise UsageError("with FSDP or ZeRO-3, no process can keep a copy of all weights; set track_kl: false")


def peft_config(config: TrainConfig) -> Any:
    """Return the LoRA configuration, or `None` if all weights are trained."""
    if not config.lora_rank:
        return None
    return lora(config.lora_rank, config.lora_alpha)
