"""A checkpoint that solves some tasks of `trainers/boxes_env.py`, and a suite of all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentgym.eval.suites.pinning import pin_tasks
from tests.suite_cases import write

BOXES = "boxes_env:BoxesEnv"
TASKS = 18
MAX_NEW_TOKENS = 24
_SETTINGS: dict[str, Any] = {
    "env": BOXES, "model": "tiny", "context": 256, "max_new_tokens": MAX_NEW_TOKENS, "tiny_vocabulary": 400,
    "tiny_hidden": 64, "tiny_layers": 2, "tiny_heads": 2, "warm_start_steps": 80, "warm_start_tasks": 100,
    "warm_start_batch": 16,
}  # fmt: skip


def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the environment importable, here and in child processes."""
    folder = str(Path(__file__).parent / "trainers")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))


def teach(folder: Path) -> Path:
    """Write a checkpoint that solves some tasks and fails at others; takes seconds."""
    from agentgym.trainers.config import load_config
    from agentgym.trainers.policies import describe_training, load_model

    model, tokenizer = load_model(load_config(None, _SETTINGS), lambda what, done, of: None)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    describe_training(folder, BOXES, {"dialect": "compact"})
    return folder


def greedy_suite(path: Path) -> Path:
    """Write a suite whose entry names the dialect that the weights were trained on, also for endpoints."""
    entry = {
        "env": BOXES, "name": "boxes", "dialect": "compact", "sampling": {"temperature": 0},
        "limits": {"max_new_tokens": MAX_NEW_TOKENS},
    }  # fmt: skip
    write(path, {"name": "greedy", "version": 1, "entries": [entry]})
    pin_tasks(path, "boxes", None, TASKS)
    return path
