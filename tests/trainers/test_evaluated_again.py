"""`agentgym eval` finds for a saved model what training reported of it, on the same tasks with the same seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from rich.console import Console
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.train import train

pytestmark = [pytest.mark.real, pytest.mark.train]


def said(path: Path) -> dict[str, Any]:
    """Return the sampled tokens of each attempt at each task."""
    return {trajectory.id: trajectory.tokens and trajectory.tokens.completion_ids for trajectory in read_jsonl(path)}


def test_the_same_seed_gives_the_numbers_and_the_tokens_of_the_report(small: Any, checkpoint: Path):
    config = small(steps=2, eval_tasks=4, eval_attempts=3, output_dir="run", seed=5)
    train(config, Console(quiet=True))
    summary = json.loads((Path("run") / "summary.json").read_text(encoding="utf-8"))
    for when, model in (("before", checkpoint), ("after", Path("run") / "model")):
        command = ["eval", "--env", config.env, "--policy", str(model), "--tasks", "test", "-n", "4", "-k", "3"]
        command += ["--seed", "5", "--max-new-tokens", "4", "--dialect", "hermes", "--out", f"{when}.jsonl", "--json"]
        again = CliRunner().invoke(app, command)
        assert again.exit_code == 0, again.output
        assert json.loads(again.stdout)["overall"] == summary[when]["overall"]
        assert said(Path(f"{when}.jsonl")) == said(Path("run") / f"eval-{when}.jsonl")
