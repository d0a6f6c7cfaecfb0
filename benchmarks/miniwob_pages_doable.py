"""Play the scripted solution of every page of MiniWoB++ in every action mode, within the page's own turns.

    python -m benchmarks.miniwob_pages_doable [--seeds 3] [--page NAME ...]

With `--page`, rows of other pages are kept. An episode counts if the page gives its full reward. Pages that ask for a
point of a drawing measure its distance in pixels, so from 0.9 on.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from typing import Any

from agentgym.base.errors import AgentGymError
from agentgym.core.messages import text_of
from agentgym.core.policy import steps
from agentgym.core.task import Task
from agentgym.envs.web import MiniWoBEnv
from agentgym.envs.web.base import Actions
from agentgym.tasks.miniwob_pages import LEFT_OUT, MINIWOB_PAGES
from benchmarks._report import Claim, argument_parser, earlier, write

FULL = 0.9
CONCURRENCY = 3
MODES: tuple[Actions, ...] = ("refs", "pixels")
"""The mode `both` offers the tools of `refs`, so the solution makes the same calls."""


def played(pages: Sequence[str], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Play and yield a row for each page and mode: the seeds that were not solved, and the turns of the longest."""
    with ThreadPoolExecutor(CONCURRENCY) as threads:
        yield from threads.map(lambda pair: row_of(pair[0], pair[1], seeds), product(pages, MODES))


def row_of(page: str, mode: Actions, seeds: Sequence[int]) -> dict[str, Any]:
    """Play the episodes of one page in one mode."""
    with closing(MiniWoBEnv(page=page, actions=mode)) as env:
        attempts = {seed: attempt(env, page, seed) for seed in seeds}
    row = {"page": page, "actions": mode, "seeds": len(seeds), "max_turns": env.max_turns}
    row["turns"] = max(result["turns"] for result in attempts.values())
    return row | {"not_solved": {seed: result["why"] for seed, result in attempts.items() if result["why"]}}


def attempt(env: MiniWoBEnv, page: str, seed: int) -> Mapping[str, Any]:
    """Play one episode; return its number of turns, and why it was not solved."""
    task = Task(f"{page}/{seed}", "train", page, data={"page": page, "seed": seed})
    env.reset(options={"task": task})
    paid = Counter[str]()
    turns, why = 0, "the solution ended early"
    try:
        for result in steps(env, env.solution(task)):
            turns += 1
            paid.update(result.info["rewards"])
            if result.info.get("ending"):
                why = f"{result.info['ending']}, reward {paid['raw']:.2f}: {text_of(result.observation[-1])[:200]}"
    except AgentGymError as problem:
        why = str(problem)[:500]
    return {"turns": turns, "why": "" if paid["outcome"] and paid["raw"] >= FULL else why}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="episodes of each page and mode")
    parser.add_argument("--page", action="append", choices=MINIWOB_PAGES, help="only this page; may be repeated")
    options = parser.parse_args()
    pages = options.page or MINIWOB_PAGES
    rows = [row for row in earlier("miniwob_pages_doable")["rows"] if row["page"] in {*MINIWOB_PAGES} - {*pages}]
    for row in played(pages, range(1, options.seeds + 1)):
        rows.append(row)
        if row["not_solved"]:
            print(row, file=sys.stderr)
    claims = [Claim("miniwob_pages", len(MINIWOB_PAGES), ">=", 124)]
    for mode in MODES:
        solved = sum(row["actions"] == mode and not row["not_solved"] for row in rows)
        claims.append(Claim(f"miniwob_pages_doable_{mode}", solved, ">=", len(MINIWOB_PAGES)))
    rows += [{"page": page, "left_out": reason} for page, reason in LEFT_OUT.items()]
    write("miniwob_pages_doable", rows, claims, packages=("miniwob", "playwright"))


if __name__ == "__main__":
    main()
