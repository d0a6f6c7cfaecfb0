"""A small model, a vLLM server and asynchronous runs, for benchmarks on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, GenerationConfig

from agentgym.trainers.asynchronous.server import OwnServer, server_settings
from agentgym.trainers.config import load_config
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer

GROUPS, GROUP_SIZE = 4, 4
SETTINGS: dict[str, Any] = {
    "env": "benchmarks._letters:Letters", "async_training": True, "groups": GROUPS, "group_size": GROUP_SIZE,
    "updates_per_step": 1, "micro_batch": GROUP_SIZE, "context": 256, "max_new_tokens": 6, "learning_rate": 1e-3,
    "warmup_steps": 0, "lora_rank": 8, "lora_alpha": 16, "bf16": False, "gradient_checkpointing": False,
    "eval_tasks": 4, "eval_attempts": 1, "max_in_flight": 64, "report_to": [], "record_groups": None,
}  # fmt: skip


def make_model(folder: Path) -> None:
    """Write a model with random weights whose turns end after a few tokens."""
    texts = ["Begin with a small letter, please (train 17).", "Again.", "a b c"]
    tokenizer = tiny_tokenizer(texts, 320)
    model = tiny_model(tokenizer, TinyShape(320, 64, 2, 2, 64, 256), seed=0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(8)  # so that it prefers some tokens
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    GenerationConfig(eos_token_id=[tokenizer.eos_token_id, *range(101, len(tokenizer), 2)]).save_pretrained(folder)


@contextmanager
def served(folder: Path, max_staleness: int) -> Iterator[OwnServer]:
    """Write a model to `folder/model` and serve it, with adapters."""
    make_model(folder / "model")
    config = load_config(None, {**SETTINGS, "model": str(folder / "model"), "max_staleness": max_staleness})
    settings = server_settings(config, AutoConfig.from_pretrained(folder / "model"))
    server = OwnServer(str(folder / "model"), settings, folder / "server.log")
    try:
        server.wait()
        yield server
    finally:
        server.close()


def log_of(folder: Path) -> str:
    """Return the end of the output of the runs in a folder."""
    return (folder / "run.log").read_text(errors="replace")[-3000:]


def begin(folder: Path, **settings: Any) -> subprocess.Popen[bytes]:
    """Start a run of the model in `folder/model`, in `folder/run`, in a process of its own."""
    whole = {**SETTINGS, "model": str(folder / "model"), "output_dir": str(folder / "run"), **settings}
    script = "import sys, json; from agentgym.trainers.config import load_config; from agentgym.trainers.train import "
    script += "train; train(load_config(None, json.loads(sys.argv[1])))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (folder / "run.log").open("ab") as log:
        command = [sys.executable, "-W", "ignore", "-c", script, json.dumps(whole)]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)
