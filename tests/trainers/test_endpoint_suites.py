"""A suite behind a chat endpoint that renders as chat servers do has the results of the same weights in this process.

The endpoint is a stand-in with the weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.core.messages import text_of
from agentgym.core.trajectory import read_jsonl
from tests.endpoints import Fake, Said, completion
from tests.taught_boxes import TASKS, greedy_suite, importable, teach

pytestmark = [pytest.mark.real, pytest.mark.train]


def serving(folder: Path) -> Fake:
    """Return a server that renders a conversation with the chat template and continues it greedily."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def answer(request: dict[str, Any], number: int) -> Said:
        assert request["temperature"] == 0
        read = tokenizer.apply_chat_template(
            request["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.inference_mode():
            ids = model.generate(**read, do_sample=False, max_new_tokens=request["max_tokens"])[0]
        return completion(tokenizer.decode(ids[read["input_ids"].shape[1] :], skip_special_tokens=True))

    return Fake(answer)


def said_by_task(path: Path) -> dict[str, list[str]]:
    """Return what a policy wrote and was shown in each task, message by message."""
    return {
        trajectory.task_id: [text_of(message) for message in trajectory.messages] for trajectory in read_jsonl(path)
    }


def test_a_suite_over_http_has_the_answers_of_the_same_weights_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    importable(monkeypatch)
    taught, suite = teach(tmp_path / "taught"), greedy_suite(tmp_path / "greedy.yaml")
    with serving(taught).serving() as url:
        command = ["eval", "--suite", str(suite), "--policy", str(taught), "--policy", f"openai:taught@{url}"]
        result = CliRunner().invoke(app, [*command, "--endpoint", "results=tool", "--out", "results", "--json"])
    assert result.exit_code == 0, result.output
    success = [row["summary"]["overall"]["success"] for row in json.loads(result.stdout)["results"]]
    assert len(success) == 2
    assert success[0] == success[1]
    assert 0 < success[0] < 1
    here, there = [said_by_task(path) for path in Path("results/trajectories").iterdir()]
    assert len(here) == TASKS
    assert there == here
