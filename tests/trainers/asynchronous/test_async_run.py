"""Whole asynchronous runs on a CPU, with a server that samples with transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.train import train

pytestmark = [pytest.mark.real, pytest.mark.train, pytest.mark.filterwarnings("ignore")]

ASYNC: dict[str, Any] = {
    "async_training": True, "lora_rank": 4, "lora_alpha": 8, "updates_per_step": 1, "max_staleness": 1, "steps": 3,
    "context": 192, "output_dir": "run", "learning_rate": 2e-2,
}  # fmt: skip


def test_a_run_learns_from_what_its_server_samples(small: Any, serve: Any, brief_checkpoint: Path):
    server = serve(brief_checkpoint)
    train(small(**ASYNC, servers=[server.url]))
    lines = list(read_metrics(Path("run") / "metrics.jsonl"))
    assert [line["step"] for line in lines] == [1, 2, 3]
    # The tokens of the first step have the trainer's weights.
    assert lines[0]["sampler_gap_max"] < 1e-4
    assert lines[0]["staleness"] == 0
    assert all(line["staleness_max"] <= 1 for line in lines)
    assert all(line["positions_per_real_token"] < 1.15 for line in lines)
    groups = json.loads((Path("run") / "checkpoint-3" / "groups.json").read_text())
    assert groups["next"] - len(groups["open"]) >= 6
