"""Training sharded with FSDP 2 compared with training of whole copies (DDP): losses and gradient norms of five steps.

A tiny model with all weights and with LoRA, in two processes on CPUs, on the same trajectories of uneven length.

    python -m benchmarks.fsdp_equals_ddp
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import Claim, argument_parser, write

NAME = "fsdp_equals_ddp"
TOLERANCE = 1e-5
WEIGHTS = ("all weights", "LoRA")
_LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=5)
    rows = steps(parser.parse_args().steps)
    claims = [
        Claim(f"{NAME}_{weights.replace(' ', '_').lower()}_{name}", gap(rows, weights, name), "<=", TOLERANCE)
        for weights in WEIGHTS
        for name in ("loss", "grad_norm")
    ]
    write(NAME, rows, claims, packages=("torch", "trl", "transformers", "accelerate", "peft"))


def steps(count: int) -> list[dict[str, Any]]:
    """Train for some steps in two processes; return a row for each step (`_sharded_steps`)."""
    words = [sys.executable, *_LAUNCHER, "-m", "benchmarks._sharded_steps", "--steps", str(count)]
    variables = os.environ | {"OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[1]
    result = subprocess.run(words, capture_output=True, text=True, env=variables, cwd=root, check=False)
    if result.returncode:
        raise RuntimeError(f"status {result.returncode}\n{result.stderr}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def gap(rows: Sequence[dict[str, Any]], weights: str, name: str) -> float:
    """Return the largest difference between the two kinds over the steps."""
    values = ([row[name] for row in rows if (row["kind"], row["weights"]) == (kind, weights)] for kind in KINDS)
    return max(abs(one - other) for one, other in zip(*values, strict=True))


KINDS = ("DDP", "FSDP2")


if __name__ == "__main__":
    main()
