"""Runs in processes of their own: killed or interrupted at any moment, and several that train together."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from rich.console import Console

from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.config import TrainConfig, load_config, to_dict
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.policies import warm_start_of
from agentgym.trainers.run_folder import last_checkpoint, step_of
from agentgym.trainers.train import train, warm_start
from tests.stopped import command
from tests.trainers.test_train_command import option
from tests.waiting import HANG_S, eventually

pytestmark = [pytest.mark.real, pytest.mark.train]

TWO_PROCESSES = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


def flags(config: TrainConfig) -> list[str]:
    """The settings as flags, without `micro_batch`, which each run lowers to its own share of an update."""
    values = to_dict(config) | {"micro_batch": None}
    return [option(name, value) for name, value in values.items() if value not in (None, {})]


def start(config: TrainConfig, launcher: Sequence[str] = ()) -> subprocess.Popen[str]:
    words = [sys.executable, *launcher, "-m", "agentgym", "train", *flags(config)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
def test_a_killed_run_loses_only_the_steps_since_its_last_checkpoint(small: Any):
    config = small(output_dir="run", steps=40, keep_checkpoints=2)
    process = start(config)
    assert eventually(lambda: last_checkpoint(Path("run")) is not None or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (Path("run") / "model").exists()
    checkpoint = last_checkpoint(Path("run"))
    assert checkpoint is not None
    done = step_of(checkpoint)
    before = list(read_metrics(Path("run") / "metrics.jsonl"))[:done]
    config.resume = True
    train(config, Console(file=io.StringIO()))
    after = list(read_metrics(Path("run") / "metrics.jsonl"))
    assert after[:done] == before
    assert [line["step"] for line in after] == list(range(1, 41))
    assert (Path("run") / "model").is_dir()


@pytest.mark.slow
def test_two_processes_train_as_one_does(small: Any):
    """Groups of four over two processes with three groups: one of the groups is shared by both."""
    settings = {"steps": 3, "groups": 3, "updates_per_step": 1, "save_every": 2}
    alone = small(output_dir="alone", **settings)
    train(alone, Console(file=io.StringIO()))
    # `accelerate launch --cpu --num_processes 2` starts one process (accelerate 1.15).
    process = start(small(output_dir="both", **settings), TWO_PROCESSES)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output
    assert "in 2 processes" in output
    assert output.count("held-out success before") == 1
    alone_lines, two = (list(read_metrics(Path(name) / "metrics.jsonl")) for name in ("alone", "both"))
    assert [line["step"] for line in two] == [1, 2, 3]
    for name in ("reward", "success", "flat_groups", "turns", "entropy", "kl_to_start", "grad_norm"):
        tolerance = 1e-2 if name == "entropy" else 1e-3  # TRL takes the mean of the processes' mean entropies
        assert [line[name] for line in two] == pytest.approx([line[name] for line in alone_lines], abs=tolerance), name
    for when in ("before", "after"):
        assert len(list(read_jsonl(Path("both") / f"eval-{when}.jsonl"))) == 6
    assert sampled("both") == sampled("alone")
    assert last_checkpoint(Path("both")) is not None


def sampled(folder: str) -> dict[str, list[int]]:
    """The tokens of the evaluation before training, by trajectory."""
    trajectories = read_jsonl(Path(folder) / "eval-before.jsonl")
    return {t.id: t.tokens.completion_ids for t in trajectories if t.tokens}


SIGNED = """
import os
from pathlib import Path
from letters_env import LettersEnv

class Signed(LettersEnv):
    def start(self, task):
        super().start(task)
        Path(f"{task.split}-{os.getpid()}").touch()
"""
"""An environment whose episodes leave the number of their process."""


def test_processes_share_a_warm_start_and_the_held_out_tasks(small: Any, monkeypatch: pytest.MonkeyPatch):
    Path("signed_env.py").write_text(SIGNED, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd()), os.environ["PYTHONPATH"]]))
    monkeypatch.syspath_prepend(str(Path.cwd()))
    imitation = {"warm_start_steps": 2, "warm_start_tasks": 4, "warm_start_batch": 4, "warm_start_tests": 1}
    # `micro_batch` is that of the runs with two processes: a warm start depends on it.
    config = small(output_dir="run", env="signed_env:Signed", steps=1, micro_batch=2, **imitation)
    process = start(config, TWO_PROCESSES)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output
    assert len(list(Path.cwd().glob("test-*"))) == 2  # processes that played
    assert len(list(read_jsonl(Path("run/eval-before.jsonl")))) == len(sampled("run")) == 6
    made = warm_start_of(config).folder
    changed = (made / "config.json").stat().st_mtime_ns
    assert warm_start(config) == made
    assert (made / "config.json").stat().st_mtime_ns == changed


HELD = """
import time
from pathlib import Path
from letters_env import LettersEnv

class Held(LettersEnv):
    def respond(self, text):
        if self.training_step == 1 and not Path("go").exists():
            Path("begun").touch()
            time.sleep(3600)
        return super().respond(text)
"""
"""An environment whose second training step does not end."""


def test_an_interrupted_run_leaves_nothing_and_goes_on_from_its_checkpoint(small: Any, monkeypatch: pytest.MonkeyPatch):
    Path("held_env.py").write_text(HELD, encoding="utf-8")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    config = small(output_dir="run", env="held_env:Held", steps=2)
    with command(["train", *flags(config)], Path.cwd(), cwd=Path.cwd()) as training:
        assert eventually(lambda: Path("begun").exists() or training.process.poll() is not None)
        training.press(signal.SIGINT)
        status, output = training.ended()
        assert (status, training.left()) == (130, [])
    command_line = "agentgym train --resume --output-dir run"
    advice = f"The run in run has a checkpoint of step 1 of 2; `{command_line}` continues from it."
    assert output.endswith(f"{advice}\nInterrupted.\n")
    assert "Traceback" not in output
    assert not Path("run/.lock").exists()
    Path("go").touch()
    train(load_config(None, {**to_dict(config), "resume": True}))
    assert [line["step"] for line in read_metrics(Path("run/metrics.jsonl"))] == [1, 2]
