"""Runs in processes of their own: killed at any moment, and several that train together."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from rich.console import Console

from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.config import FIELDS, PRETRAINED, TrainConfig
from agentgym.trainers.logbook.records import last_checkpoint, read_metrics
from agentgym.trainers.train import train

pytestmark = [pytest.mark.real, pytest.mark.train, pytest.mark.slow]

TWO_PROCESSES = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


def flags(config: TrainConfig, *names: str) -> list[str]:
    """The settings of a configuration that are not defaults of all models, as flags.

    Without `micro_batch`, which each run lowers to its own share of an update.
    """
    default = TrainConfig()
    values = {name: getattr(config, name) for name in FIELDS if name != "micro_batch"}
    changed = {name: value for name, value in values.items() if value != getattr(default, name) or name in PRETRAINED}
    return [f"--{name}={value}" for name, value in changed.items()]


def start(config: TrainConfig, launcher: Sequence[str] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, *launcher, "-m", "agentgym", "train", *flags(config)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(process: subprocess.Popen[str], folder: Path) -> None:
    """Wait for the first complete checkpoint."""
    for _ in range(6000):
        if last_checkpoint(folder) is not None:
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    pytest.fail("no checkpoint")


def test_a_killed_run_loses_only_the_steps_since_its_last_checkpoint(small: Any):
    config = small(output_dir="run", steps=40, keep_checkpoints=2)
    process = start(config)
    wait_for(process, Path("run"))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (Path("run") / "model").exists()
    checkpoint = last_checkpoint(Path("run"))
    assert checkpoint is not None
    done = int(checkpoint.name.rpartition("-")[2]) // 2
    before = list(read_metrics(Path("run") / "metrics.jsonl"))[:done]
    config.resume = True
    train(config, Console(file=io.StringIO()))
    after = list(read_metrics(Path("run") / "metrics.jsonl"))
    assert after[:done] == before
    assert [line["step"] for line in after] == list(range(1, 41))
    assert (Path("run") / "model").is_dir()


def test_two_processes_train_as_one_does(small: Any):
    """Groups of four over two processes with three groups: one of the groups is shared by both."""
    settings = {"steps": 3, "groups": 3, "updates_per_step": 1, "save_every": 2}
    alone = small(output_dir="alone", **settings)
    train(alone, Console(file=io.StringIO()))
    # `accelerate launch --cpu --num_processes 2` starts one process (accelerate 1.15).
    process = start(small(output_dir="both", **settings), TWO_PROCESSES)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert "in 2 processes" in output
    assert output.count("held-out success before") == 1
    alone_lines, two = (list(read_metrics(Path(name) / "metrics.jsonl")) for name in ("alone", "both"))
    assert [line["step"] for line in two] == [1, 2, 3]
    for name in ("reward", "success", "flat_groups", "turns", "entropy", "kl_to_start", "grad_norm"):
        assert [line[name] for line in two] == pytest.approx([line[name] for line in alone_lines], abs=1e-3), name
    for when in ("before", "after"):
        assert len(list(read_jsonl(Path("both") / f"eval-{when}.jsonl"))) == 6
    assert last_checkpoint(Path("both")) is not None
