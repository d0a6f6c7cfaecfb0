"""TRL's configuration for a run, and runs that fit no devices, split or logging integration."""

from __future__ import annotations

import ast
import inspect
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from accelerate import DistributedType

from agentgym.base.errors import UsageError
from agentgym.core.rewards import Scheme
from agentgym.trainers.config import (
    TrainConfig,
    bundled_recipes,
    load_config,
)
from agentgym.trainers.credit import Credit, CreditMode
from agentgym.trainers.passed_on import owned_by_run
from agentgym.trainers.trl_config import (
    check_trl,
    credit_of,
    env_factory,
    eval_split_of,
    grpo_config,
    peft_config,
    probe,
    refuse_sharded,
)
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


@each_row("name", bundled_recipes())
def test_every_bundled_recipe_is_valid_and_its_environment_can_be_made(name: str):
    config = load_config(name)
    source, _ = probe(env_factory(config))
    assert (config.eval_split, eval_split_of(config, source)) == (None, "test")


@each_row("devices", [1, 8])
@each_row("name", ["sql-qwen3-lora", "sql-qwen3-full"])
def test_recipes_for_gpus_can_be_spread_over_eight(name: str, devices: int):
    config = load_config(name, {"bf16": False, "use_vllm": False})
    arguments = grpo_config(config, world_size=devices, use_cpu=True)
    per_device = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps
    assert per_device * devices * config.updates_per_step == config.batch
    assert arguments.gradient_checkpointing
    assert (peft_config(config) is None) == (name == "sql-qwen3-full")


def test_the_batch_must_fit_the_devices():
    config = load_config(None, {"env": "guess", "groups": 4, "group_size": 2, "updates_per_step": 1})
    with pytest.raises(UsageError, match="number of devices"):
        grpo_config(config, world_size=3, use_cpu=True)
    for setting in ("refill_rounds", "ahead"):
        odd = {"env": "guess", "groups": 5, "group_size": 2, "updates_per_step": 1, setting: 1}
        with pytest.raises(UsageError, match=f"{setting} needs whole groups on each of the 2 devices"):
            grpo_config(load_config(None, odd), world_size=2, use_cpu=True)


@each_row(
    "settings, advice",
    [
        ({}, "set use_vllm: true"),
        ({"use_vllm": True}, "set track_kl: false"),
        ({"use_vllm": True, "lora_rank": 4}, None),
    ],
)
def test_a_sharded_model_cannot_be_sampled_from_nor_copied(settings: dict[str, Any], advice: str | None):
    config = load_config(None, {"env": "guess", **settings})
    plugin = SimpleNamespace(zero_stage=3)
    fsdp = SimpleNamespace(distributed_type=DistributedType.FSDP, state=SimpleNamespace())
    zero = SimpleNamespace(distributed_type=DistributedType.DEEPSPEED, state=SimpleNamespace(deepspeed_plugin=plugin))
    for accelerator in (fsdp, zero):
        with pytest.raises(UsageError, match=advice) if advice else nullcontext():
            refuse_sharded(config, accelerator)
    refuse_sharded(config, SimpleNamespace(distributed_type=DistributedType.MULTI_GPU, state=SimpleNamespace()))


# Settings that are passed on.


def configured(**trl: Any) -> Any:
    return grpo_config(load_config(None, {"env": "guess", "model": "some/model", "bf16": False, "trl": trl}), 1, True)


@each_row(
    "trl, message",
    [
        ({"adam_beta": 0.9}, "trl: unknown key 'adam_beta'; did you mean 'adam_beta"),
        ({"adam_beta2": "high"}, "trl: 'adam_beta2': Input should be a valid number"),
    ],
)
def test_arguments_that_trl_does_not_have_are_refused(trl: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        check_trl(load_config(None, {"env": "guess", "model": "some/model", "trl": trl}))


def test_arguments_are_passed_on_to_trl():
    trl = {"optim": "adafactor", "adam_beta2": 0.95, "lr_scheduler_type": "constant"}
    check_trl(load_config(None, {"env": "guess", "model": "some/model", "trl": trl}))
    arguments = configured(**trl)
    assert (arguments.optim, arguments.adam_beta2) == ("adafactor", 0.95)
    assert (arguments.lr_scheduler_type, arguments.lr_scheduler_kwargs) == ("constant", None)
    polynomial = configured(lr_scheduler_type="polynomial", lr_scheduler_kwargs={"power": 2.0})
    assert polynomial.lr_scheduler_kwargs == {"power": 2.0}
    assert configured().lr_scheduler_kwargs == {"min_lr_rate": 0.1}


def test_every_argument_that_a_run_gives_trl_is_refused_or_may_be_replaced():
    """Otherwise a key could silently change what a setting decides."""
    source = ast.parse(inspect.getsource(grpo_config))
    [call] = [
        node for node in ast.walk(source) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "partial"
    ]
    names = {keyword.arg for keyword in call.keywords if keyword.arg}
    replaceable = {"lr_scheduler_type", "lr_scheduler_kwargs", "disable_dropout", "dataloader_pin_memory"}
    assert names - owned_by_run("trl") == replaceable


WITH_TOOL = Scheme({"outcome": 2.0, "tool": 0.5}, allow_unsound=True)


def test_the_settings_of_a_run_are_those_of_its_credit():
    """A credit made by hand is that of a run without settings, and each setting arrives."""
    config = TrainConfig()
    assert credit_of(config, WITH_TOOL) == Credit(mode=config.credit, scheme=WITH_TOOL)
    changed = {"scale_by_std": False, "turn_weight": 0.25, "negative_weight": 0.5, "train_on_truncated": False}
    for name, value in changed.items():
        setattr(config, name, value)
    config.credit = CreditMode.TURN
    assert credit_of(config, WITH_TOOL) == Credit(CreditMode.TURN, WITH_TOOL, **changed)  # type: ignore[arg-type]
