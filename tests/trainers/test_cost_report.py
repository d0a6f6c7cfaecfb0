"""The cost model without torch: plans that fit and that do not, and the script that prints them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.base.errors import UsageError
from agentgym.trainers.config import load_config
from agentgym.trainers.cost.estimate import (
    Plan,
    StepWork,
    cache_episodes,
    cache_memory,
    fits,
    memory_share,
    step_seconds,
    training_memory,
)
from agentgym.trainers.cost.gpus import GIB, GPUS, gpu_named, gpu_of
from agentgym.trainers.cost.of_run import longest_episodes, plan_of
from agentgym.trainers.cost.shapes import shape_named
from tests.rows import each_row

EIGHT = Plan(shape_named("Qwen3-8B"), GPUS["h100"], gpus=8, lora_rank=32, micro_batch=2)


@each_row(
    "device, name",
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40", None),
        ("Some GPU", None),
    ],
)
def test_a_device_is_recognised_by_the_name_of_its_driver(device: str, name: str | None):
    assert gpu_of(device) == (GPUS[name] if name else None)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'h100'"):
        gpu_named("h10")
    with pytest.raises(UsageError, match="the shape of model 'Qwen/Qwen3-8' is not known; did you mean"):
        shape_named("Qwen/Qwen3-8")
    assert shape_named("smollm2") == shape_named("SmolLM2-135M-Instruct")


def test_sharing_weights_and_adapters_save_the_memory_of_what_is_not_held():
    whole = training_memory(replace(EIGHT, lora_rank=0))
    parts = training_memory(replace(EIGHT, lora_rank=0, sharded=True))
    assert (parts.gradients, parts.optimizer) == (whole.gradients / 8, whole.optimizer / 8)
    assert training_memory(EIGHT).optimizer < 0.02 * whole.optimizer
    kept = training_memory(replace(EIGHT, checkpointing=False))
    assert kept.activations > 5 * training_memory(EIGHT).activations
    assert not fits(replace(EIGHT, lora_rank=0))
    assert fits(replace(EIGHT, lora_rank=0, sharded=True))


def test_an_engine_gets_the_memory_that_training_leaves():
    share = memory_share(EIGHT)
    assert 1.1 * training_memory(EIGHT).total + share * 79 * GIB == pytest.approx(79 * GIB, rel=0.01)
    assert cache_episodes(EIGHT, share=0.3) < cache_episodes(EIGHT) < cache_episodes(EIGHT, share=0.9)
    assert cache_memory(EIGHT, share=0.2) < 0
    assert memory_share(replace(EIGHT, lora_rank=0)) == 0.2


def test_time_falls_with_gpus_and_overlaps_if_some_only_sample():
    work = StepWork()
    one, eight = step_seconds(replace(EIGHT, gpus=1), work), step_seconds(EIGHT, work)
    assert one.learn == pytest.approx(8 * eight.learn)
    assert one.generate > 2 * eight.generate
    split = step_seconds(replace(EIGHT, train_gpus=3), work)
    assert split.total == max(split.generate, split.learn) + split.sync
    assert eight.total == eight.generate + eight.learn + eight.sync
    waiting = step_seconds(EIGHT, work, tools_s=30.0)
    assert waiting.generate > eight.generate + 30
    assert work.tokens == 256 * 5800


def test_the_plan_of_a_run_has_its_settings():
    config = load_config("swe-qwen3-lora")
    plan = plan_of(config, shape_named(config.model), GPUS["h100"], 8, sharded=False)
    assert (plan.micro_batch, plan.context, plan.lora_rank, plan.updates) == (1, 16384, 32, 2)
    assert 0.8 * config.context < longest_episodes(config).length <= config.context


@pytest.mark.real
@each_row(
    "words, code, text",
    [
        (["Qwen3-8B", "--gpus", "8", "--lora", "32"], 0, "engine: whole episodes of 8,192 tokens"),
        (["Qwen3-32B", "--gpus", "8"], 0, "It does not fit"),
        (["Qwen3-8", "--gpus", "8"], 1, "Error: the shape of model 'Qwen3-8' is not known"),
        (["Qwen3-8B", "--gpus", "8", "--train-gpus", "8"], 1, "Error: --train-gpus must leave"),
    ],
)
def test_the_script_prints_an_estimate_or_one_line(words: list[str], code: int, text: str):
    script = Path(__file__).parents[2] / "scripts" / "cost_model.py"
    done = subprocess.run([sys.executable, str(script), *words], env=os.environ, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert text in done.stdout + done.stderr
