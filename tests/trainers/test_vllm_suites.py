"""A suite played over HTTP, behind a real chat endpoint, has the results of the same weights in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.messages import text_of
from agentgym.suites.pinning import pin_tasks
from agentgym.trainers.config import load_config
from agentgym.trainers.policies import describe_training, load_model
from agentgym.trajectory import read_jsonl
from tests.suite_cases import write
from tests.vllm_servers import RUN, served

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore"),  # what libraries want to tell vLLM
    # Not "needs the [vllm] extra": `.ci/run` has an environment of its own for these tests.
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not in this environment (see .ci/vllm)"),
]

TASKS = 18
BOXES = "boxes_env:BoxesEnv"


@pytest.fixture
def boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the environment of `boxes_env.py` importable, here and in child processes."""
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def taught(boxes: None, tmp_path: Path) -> Path:
    """A checkpoint that solves some tasks and fails at others."""
    settings = {
        "env": BOXES, "model": "tiny", "context": 256, "max_new_tokens": 24, "tiny_vocabulary": 400, "tiny_hidden": 64,
        "tiny_layers": 2, "tiny_heads": 2, "warm_start_steps": 80, "warm_start_tasks": 100, "warm_start_batch": 16,
    }  # fmt: skip
    model, tokenizer = load_model(load_config(None, settings), lambda what, done, of: None)
    folder = tmp_path / "taught"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    describe_training(folder, BOXES, {"dialect": "compact"})
    return folder


def greedy_suite(path: Path) -> Path:
    """Write a suite whose entry names the dialect, so that the endpoint is sent what the weights know."""
    entry = {
        "env": BOXES, "name": "boxes", "dialect": "compact", "sampling": {"temperature": 0},
        "limits": {"max_new_tokens": 24},
    }  # fmt: skip
    write(path, {"name": "greedy", "version": 1, "entries": [entry]})
    pin_tasks(path, "boxes", None, TASKS)
    return path


def evaluate(suite: Path, *policies: str) -> dict[str, Any]:
    """Play a suite with the command; return its report, with the trajectories in the folder `results`."""
    command = [str(Path(sys.executable).with_name("agentgym")), "eval", "--suite", str(suite), "--out", "results"]
    # The tiny model's template has a role for results.
    command += ["--endpoint", "results=tool", "--json", *(part for policy in policies for part in ("--policy", policy))]
    done = subprocess.run(command, env=os.environ | RUN, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(done.stdout)


def said_by_task(path: Path) -> dict[str, list[str]]:
    """Return what a policy wrote and was shown in each task, message by message."""
    return {found.task_id: [text_of(message) for message in found.messages] for found in read_jsonl(path)}


def test_a_suite_over_http_has_the_answers_and_the_success_of_the_weights_in_process(taught: Path, tmp_path: Path):
    suite = greedy_suite(tmp_path / "greedy.yaml")
    with served(taught, tmp_path / "log", "taught") as url:
        report = evaluate(suite, str(taught), f"openai:taught@{url}/v1", f"vllm:{taught}@{url}")
    success = [row["summary"]["overall"]["success"] for row in report["results"]]
    assert len(success) == 3
    assert len(set(success)) == 1
    assert 0 < success[0] < 1
    here, *there = [said_by_task(path) for path in sorted(Path("results/trajectories").iterdir())]
    assert len(here) == TASKS
    assert there == [here, here]
