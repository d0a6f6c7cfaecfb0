"""Runs that FSDP 2 shards over two processes on CPUs; they sample with a stand-in for vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.config import RECIPES
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.run_folder import last_checkpoint
from benchmarks.fsdp_equals_ddp import KINDS, TOLERANCE, WEIGHTS, gap, steps
from tests.rows import each_row
from tests.stopped import ROOT
from tests.trainers.test_train_processes import flags
from tests.waiting import HANG_S

LAUNCHER = ["-m", "accelerate.commands.launch", "--config_file", str(RECIPES / "accelerate-fsdp.yaml")]
LAUNCHER += ["--num_processes", "2", "--mixed_precision", "no", "--main_process_port", "0"]

pytestmark = [pytest.mark.real, pytest.mark.train]


def run(*words: str, saved: str = "FULL_STATE_DICT") -> str:
    """Run `agentgym train` as `accelerate-fsdp.yaml` says, but on CPUs; return its output."""
    places = [str(ROOT / "tests" / "stand_ins"), str(ROOT), os.environ["PYTHONPATH"]]
    variables = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(places)}
    launcher = [*LAUNCHER, "--fsdp_state_dict_type", saved]
    command = [sys.executable, *launcher, "-m", "benchmarks._shard_on_cpu", "train", *words]
    result = subprocess.run(command, capture_output=True, text=True, env=variables, check=False, timeout=HANG_S)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_sharded_steps_equal_those_of_whole_copies():
    rows = steps(2)
    assert {(row["kind"], row["parameter"]) for row in rows} == {("DDP", "Parameter"), ("FSDP2", "DTensor")}
    assert len(rows) == 2 * len(KINDS) * len(WEIGHTS)
    for weights in WEIGHTS:
        assert max(row["grad_norm"] for row in rows if row["weights"] == weights) > 1e-2
        assert max(gap(rows, weights, name) for name in ("loss", "grad_norm")) < TOLERANCE


@each_row("lora_rank, saved", [(0, "SHARDED_STATE_DICT"), (4, "FULL_STATE_DICT")])
def test_a_sharded_run_evaluates_saves_and_resumes(
    small: Any, checkpoint: Path, sampled_from: Any, lora_rank: int, saved: str
):
    """Only rank 0 has weights to begin with (`cpu_ram_efficient_loading`)."""
    settings = {"use_vllm": True, "steps": 2, "lora_rank": lora_rank, "track_kl": lora_rank > 0}
    folder = Path(f"run-{lora_rank}")
    output = run(*flags(small(output_dir=str(folder), **settings)), saved=saved)
    assert "in 2 processes" in output
    assert sampled_from(checkpoint, folder / "eval-before.jsonl") < 1e-4
    assert sampled_from(folder / "model", folder / "eval-after.jsonl") < 1e-3
    before = (folder / "eval-before.jsonl").read_bytes()
    run("--resume", "--output-dir", str(folder), "--steps", "3", saved=saved)
    metrics = list(read_metrics(folder / "metrics.jsonl"))
    assert [line["step"] for line in metrics] == [1, 2, 3]
    assert all(("kl_to_start" in line) == bool(lora_rank) for line in metrics)
    assert all(line["sampler_gap_max"] < 1e-3 for line in metrics)
    assert last_checkpoint(folder) == folder / "checkpoint-3"
    assert (folder / "eval-before.jsonl").read_bytes() == before
    assert len(list(read_jsonl(folder / "eval-after.jsonl"))) == 6
    assert sampled_from(folder / "model", folder / "eval-after.jsonl") < 1e-3


def test_the_recipe_for_eight_gpus_runs_with_a_small_model(tokenizer: Any, letters: Any, tmp_path: Path):
    """The command in `docs/tutorials/gpu.md` with its settings, but for sizes and precision."""
    from agentgym.trainers.tiny import TinyShape, tiny_model

    model = tmp_path / "model"
    shape = TinyShape(vocabulary=320, hidden=32, layers=2, heads=2, feed_forward=64, context=8192)
    tiny_model(tokenizer, shape, seed=0).save_pretrained(model)
    tokenizer.save_pretrained(model)
    sizes = "--steps 1 --groups 2 --group-size 4 --micro-batch 1 --max-new-tokens 8 --eval-tasks 2 --eval-attempts 1"
    easier = ["--set", "max_turns=2", "--set", "engine=sqlite", "--no-bf16", "--report-to", "[]"]
    run("--recipe", "sql-qwen3-full", "--model", str(model), "--output-dir", "run", *sizes.split(), *easier)
    assert [line["step"] for line in read_metrics(Path("run/metrics.jsonl"))] == [1]
    assert (Path("run") / "model" / "model.safetensors").is_file()
