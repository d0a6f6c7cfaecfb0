"""TRL's configuration for a run, and runs that fit no devices, split or logging integration."""

from __future__ import annotations

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.base.errors import UsageError
from agentgym.core.rewards import Scheme
from agentgym.trainers.config import (
    TrainConfig,
    bundled_recipes,
    load_config,
)
from agentgym.trainers.credit import Credit, CreditMode
from agentgym.trainers.trl_config import credit_of, env_factory, eval_split_of, grpo_config, peft_config, probe
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
