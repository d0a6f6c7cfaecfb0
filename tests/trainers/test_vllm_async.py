"""Asynchronous runs with a real vLLM server on the CPU, which takes adapters while it runs."""

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

from agentgym.trainers.logbook.records import read_metrics
from tests.vllm_servers import RUN

has_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not in this environment (see .ci/vllm)")
pytestmark = [pytest.mark.vllm, pytest.mark.train, pytest.mark.filterwarnings("ignore"), has_vllm]

SCRIPT = """
import sys, json
from pathlib import Path
from agentgym.trainers.config import load_config
from agentgym.trainers.train import train
from benchmarks._async_runs import SETTINGS, make_model
make_model(Path("model"))
train(load_config(None, SETTINGS | json.loads(sys.argv[1])))
"""


def test_a_run_starts_a_server_and_samples_from_the_adapters_of_each_step(tmp_path: Path):
    settings: dict[str, Any] = {"model": "model", "output_dir": "run", "steps": 4, "max_staleness": 1}
    root = Path(__file__).parents[2]
    environment = {**os.environ, **RUN, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(settings)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    lines = list(read_metrics(tmp_path / "run" / "metrics.jsonl"))
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    # Tokens that the trainer's current weights have sampled, with adapters of every version.
    gaps = [line["sampler_gap_max"] for line in lines if "sampler_gap_max" in line]
    assert gaps
    assert max(gaps) < 1e-4
    assert max(line["staleness_max"] for line in lines) >= 1
    assert all(line["positions_per_real_token"] < 1.15 for line in lines)
