"""The training step reaches environments, so that a curriculum follows the training."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.config import load_config
from agentgym.trainers.tiny import TinyShape, tiny_model
from agentgym.trainers.train import train

pytestmark = [pytest.mark.real, pytest.mark.train]

SETTINGS: dict[str, Any] = {
    "env": "ramp_env:RampEnv",
    "steps": 4,
    "groups": 2,
    "group_size": 2,
    "updates_per_step": 2,
    "context": 8192,
    "max_new_tokens": 2,
    "eval_tasks": 2,
    "eval_attempts": 1,
    "refill_rounds": 1,
    "report_to": [],
    "output_dir": "run",
    "lora_rank": 0,
    "bf16": False,
}


def test_zerosearch_s_noise_rises_with_the_trainers_steps_and_spares_evaluation(letters: Any, tokenizer: Any):
    """`letters` makes the folder of this file importable."""
    from ramp_env import RampEnv  # type: ignore[import-not-found]

    RampEnv.shown.clear()
    shape = TinyShape(vocabulary=320, hidden=32, layers=1, heads=2, feed_forward=64, context=8192)
    tiny_model(tokenizer, shape, seed=0).save_pretrained("base")
    tokenizer.save_pretrained("base")
    curriculum = {"mode": {"name": "zerosearch", "total": 3, "end": 1.0, "base": 1.0, "misleading": 1.0}}
    train(load_config(None, {**SETTINGS, "model": "base", "env_kwargs": curriculum}))
    truth: dict[int | None, list[float]] = defaultdict(list)
    for step, share in RampEnv.shown:
        truth[step].append(share)
    mean = {step: sum(shares) / len(shares) for step, shares in truth.items()}
    assert mean[None] == mean[0] == 1.0
    assert 1.0 > mean[1] > mean[2] > mean[3] == 0.0
    assert set(mean) == {None, 0, 1, 2, 3}
    # Two groups of two a step, and those that replaced them because nothing could be learned from them.
    assert all(len(truth[step]) >= 4 for step in range(4))
    assert {t.training_step for t in read_jsonl(Path("run/eval-after.jsonl"))} == {None}
