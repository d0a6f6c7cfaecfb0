"""`agentgym train` that is interrupted in the middle of a step."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.trainers.config import load_config, to_dict
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.train import train
from tests.stopped import HANG_S, Command, command
from tests.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.train]

HELD = """
import os, time
from pathlib import Path
from letters_env import LettersEnv

class Held(LettersEnv):
    def respond(self, text):
        if self.training_step == 1 and not Path("go").exists():
            Path(f"begun-{os.getpid()}").touch()
            time.sleep(3600)
        return super().respond(text)
"""
"""An environment whose second training step does not end."""


def has_begun(training: Command) -> bool:
    return eventually(lambda: any(Path().glob("begun-*")) or training.process.poll() is not None, HANG_S)


def test_it_ends_leaves_nothing_and_goes_on_from_its_checkpoint(small: Any, monkeypatch: pytest.MonkeyPatch):
    Path("held_env.py").write_text(HELD, encoding="utf-8")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    config = small(output_dir="run", env="held_env:Held", steps=2)
    words = [f"--{name}={value}" for name, value in to_dict(config).items() if value is not None]
    with command(["train", *words], Path.cwd(), cwd=Path.cwd()) as training:
        assert has_begun(training)
        training.press(signal.SIGINT)
        status, output = training.ended()
        assert (status, training.left()) == (130, [])
    advice = "The run in run has a checkpoint of step 1 of 2; the same command with --resume continues from it."
    assert output.endswith(f"{advice}\nInterrupted.\n")
    assert "Traceback" not in output
    assert [line["step"] for line in read_metrics(Path("run/metrics.jsonl"))] == [1]
    assert not Path("run/.lock").exists()
    Path("go").touch()
    train(load_config(None, {**to_dict(config), "resume": True}))
    assert [line["step"] for line in read_metrics(Path("run/metrics.jsonl"))] == [1, 2]
