"""A suite played over HTTP, behind vLLM's own chat endpoint, has the results of the same weights in this process."""

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
from agentgym.trajectory import read_jsonl
from tests.taught_boxes import TASKS, greedy_suite, importable, teach
from tests.vllm_servers import RUN, served

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.vllm,
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore"),  # what libraries want to tell vLLM
    # Not "needs the [vllm] extra": `.ci/run` has an environment of its own for these tests.
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not in this environment (see .ci/vllm)"),
]


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


def test_a_suite_over_http_has_the_answers_and_the_success_of_the_weights_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    importable(monkeypatch)
    taught, suite = teach(tmp_path / "taught"), greedy_suite(tmp_path / "greedy.yaml")
    with served(taught, tmp_path / "log", "taught") as url:
        report = evaluate(suite, str(taught), f"openai:taught@{url}/v1", f"vllm:{taught}@{url}")
    success = [row["summary"]["overall"]["success"] for row in report["results"]]
    assert len(success) == 3
    assert len(set(success)) == 1
    assert 0 < success[0] < 1
    here, *there = [said_by_task(path) for path in sorted(Path("results/trajectories").iterdir())]
    assert len(here) == TASKS
    assert there == [here, here]
