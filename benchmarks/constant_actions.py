"""The best constant of each environment: one action, the same in every task, and the share of test tasks it solves.

A policy that has learned nothing about a task but this action scores as much. The actions are those of
`agentgym.check.constants`: calls without arguments or with choices, and the commonest ends of solutions.

    python -m benchmarks.constant_actions [--tasks 100] [--only search web]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from agentgym import make
from agentgym.check.constants import best_constant
from agentgym.check.play import play
from agentgym.core.policy import solution_player
from benchmarks._report import Claim, argument_parser, earlier, write

ENVIRONMENTS: Mapping[str, float] = {
    "guess": 1.0,
    "errand": 1.0,
    "sql": 1.0,
    "search": 1.0,
    "code": 1.0,
    "swe": 0.1,
    "web": 0.2,
}
"""The environments, each with the share of the usual number of tasks, below 1 where an episode takes seconds."""


def measure(name: str, tasks: int) -> dict[str, Any]:
    """Return the row of an environment."""
    count = max(4, round(tasks * ENVIRONMENTS[name]))
    with closing(make(name)) as env:
        solutions = [play(env, env.tasks.get("test", index), 0, solution_player) for index in range(count)]
        best = best_constant(env, solutions, math.inf)
    if best is None:
        raise RuntimeError(f"{name}: there was no action to try")
    return {"environment": name, **asdict(best), "share": round(best.share, 4)}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=100, help="number of test tasks; fewer where episodes are slow")
    parser.add_argument("--only", nargs="*", default=list(ENVIRONMENTS), choices=list(ENVIRONMENTS))
    options = parser.parse_args()
    rows = [row for row in earlier("constant_actions")["rows"] if row["environment"] not in options.only]
    for name in options.only:
        rows.append(measure(name, options.tasks))
        print(rows[-1], file=sys.stderr)
    rows.sort(key=lambda row: list(ENVIRONMENTS).index(row["environment"]))
    claims = [Claim(f"best_constant_{row['environment']}_solved", row["share"], "<=", 0.15) for row in rows]
    write("constant_actions", rows, claims)


if __name__ == "__main__":
    main()
