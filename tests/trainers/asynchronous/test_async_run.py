"""Whole asynchronous runs on a CPU, with a server that samples with transformers."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from agentgym.trainers.asynchronous.run import AsyncRun
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


def numbers_of(checkpoint: Path) -> set[int]:
    """The groups that a checkpoint has learned from."""
    groups = json.loads((checkpoint / "groups.json").read_text())
    return {*range(groups["next"])} - {*groups["open"]}


def test_a_run_survives_a_killed_server_and_worker_and_continues_after_its_own_end(
    small: Any, serve: Any, brief_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
):
    server, run = serve(brief_checkpoint), Path("run")
    on_step = AsyncRun._on_step

    def in_trouble(self: AsyncRun, groups: Any, metrics: Any) -> None:
        on_step(self, groups, metrics)
        step = self._trainer.step
        if step == 1:  # its adapters are lost
            server.kill()
            server.start()
        if step == 2:
            os.kill(self._worker.pid, signal.SIGKILL)  # type: ignore[union-attr, arg-type]
        if step == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(AsyncRun, "_on_step", in_trouble)
    with pytest.raises(KeyboardInterrupt):
        train(small(**ASYNC | {"steps": 6, "servers": [server.url]}))
    assert len(numbers_of(run / "checkpoint-4")) == 8
    monkeypatch.setattr(AsyncRun, "_on_step", on_step)
    train(small(**ASYNC | {"steps": 6, "servers": [server.url], "resume": True}))
    assert [line["step"] for line in read_metrics(run / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]
    assert all(line["failed"] == 0 for line in read_metrics(run / "metrics.jsonl"))
    assert len(numbers_of(run / "checkpoint-6")) == 12
    assert (run / "model" / "adapter_model.safetensors").is_file()
