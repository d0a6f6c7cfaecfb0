"""Times of a reset and a step of each bundled environment, played by its solution, one episode at a time.

    python -m benchmarks.step_times
    agentgym cards --out docs/envs --speeds benchmarks/results/step_times.json

The first tasks, which start servers and fill caches, are not counted. `load` is the load average of the machine.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from typing import Any

from agentgym.base.errors import MissingExtra
from agentgym.check.cards import CardSubject, subjects
from agentgym.check.cards.play import solved_episodes
from agentgym.envs.catalog import ENVIRONMENTS
from benchmarks._report import argument_parser, write

NOT_COUNTED = 2


def row(subject: CardSubject, tasks: int) -> dict[str, Any]:
    """Return the times of one environment, in milliseconds."""
    env = subject.make()
    try:
        episodes = solved_episodes(env, tasks + NOT_COUNTED)[NOT_COUNTED:]
    finally:
        env.close()
    steps = [seconds * 1000 for episode in episodes for seconds in episode.step_s]
    return {
        "environment": subject.name,
        "episodes": len(episodes),
        "steps": len(steps),
        "reset_ms": round(statistics.median(episode.reset_s * 1000 for episode in episodes), 3),
        "step_ms": round(statistics.median(steps), 3),
        "step_p90_ms": round(statistics.quantiles(steps, n=10)[-1], 3),
        "load": round(os.getloadavg()[0], 1),
    }


def rows(tasks: int) -> Iterator[dict[str, Any]]:
    for subject in subjects():
        if subject.ids[0] not in ENVIRONMENTS:
            continue
        try:
            yield row(subject, tasks)
        except MissingExtra as error:
            print(f"{subject.name} is left out: {error}")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=10, help="tasks of each environment")
    options = parser.parse_args()
    write("step_times", rows(options.tasks), [])


if __name__ == "__main__":
    main()
