"""`agentgym compare`: compare two runs, or several runs of two methods."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentgym.base.console import console
from agentgym.base.errors import UsageError
from agentgym.eval.comparison import Comparison, SeedsComparison, compare, compare_seeds
from agentgym.eval.comparison.runs import Source, check_suites
from agentgym.eval.comparison.tables import print_comparison, print_seeds

AGAINST = "vs"
"""The word between the files of two methods."""


def run_comparison(
    files: Sequence[str], *, seed: int = 0, flips: bool = False, as_json: bool = False
) -> Comparison | SeedsComparison:
    """Compare runs and print the result.

    Args:
        files: Two sources (`Source`), or several of one method, `"vs"`, and several of the other.
        seed: Seeds the bootstrap.
        flips: Also print the tasks won and lost.
        as_json: Print JSON instead.

    Raises:
        UsageError: A file cannot be read or compared, or `files` does not name two sides.
    """
    before, after = sides_of(files)
    for source in (*before[1:], *after):
        check_suites(before[0], source)
    if len(before) == len(after) == 1:
        comparison = compare(before[0].run(), after[0].run(), seed=seed)
        if not as_json:
            print_comparison(comparison, console(), flips=flips)
    else:
        if flips:
            raise UsageError("--flips needs exactly two runs")
        comparison = compare_seeds([source.run() for source in before], [source.run() for source in after], seed=seed)
        if not as_json:
            print_seeds(comparison, console())
    if as_json:
        console().out(json.dumps(comparison.to_dict(), indent=2), highlight=False)
    return comparison


def sides_of(files: Sequence[str]) -> tuple[list[Source], list[Source]]:
    """Return the files of each method. Raises `UsageError` if `files` does not name two sides."""
    count = files.count(AGAINST)
    if count == 0 and len(files) == 2:
        return [Source(files[0])], [Source(files[1])]
    place = files.index(AGAINST) if count == 1 else 0
    before, after = files[:place], files[place + 1 :]
    if not before or not after:
        raise UsageError(
            f"compare two files, or several runs of two methods: agentgym compare A1 A2 {AGAINST} B1 B2 "
            f"(a file called {AGAINST!r} is written ./{AGAINST})"
        )
    if repeated := [path for path in {*before, *after} if [*before, *after].count(path) > 1]:
        raise UsageError(f"{repeated[0]!r} is given twice")
    return [Source(path) for path in before], [Source(path) for path in after]
