"""`agentgym compare`: reads the files of two runs, or of several runs each, and prints how they differ."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentgym.comparison import Comparison, SeedsComparison, compare, compare_seeds
from agentgym.comparison.sources import Source, check_suites
from agentgym.comparison.tables import print_comparison, print_seeds
from agentgym.errors import UsageError
from agentgym.terminal.printing import console

AGAINST = "vs"
"""The word between the files of two methods."""


def run_comparison(
    files: Sequence[str], *, seed: int = 0, tasks: bool = False, as_json: bool = False
) -> Comparison | SeedsComparison:
    """Compare runs and print the result.

    Args:
        files: Two sources (`Source`), or those of one method, `"vs"`, and those of the other.
        seed: Seeds the bootstrap.
        tasks: Also print the tasks won and lost.
        as_json: Print JSON instead.

    Raises:
        UsageError: A file cannot be read or compared, or it is not clear which to compare.
    """
    before, after = sides_of(files)
    for source in (*before[1:], *after):
        check_suites(before[0], source)
    if len(before) == len(after) == 1:
        found = compare(before[0].run(), after[0].run(), seed=seed)
        if not as_json:
            print_comparison(found, console(), tasks=tasks)
    else:
        if tasks:
            raise UsageError("--tasks lists the tasks of two runs, not of several")
        found = compare_seeds([one.run() for one in before], [one.run() for one in after], seed=seed)
        if not as_json:
            print_seeds(found, console())
    if as_json:
        console().out(json.dumps(found.to_dict(), indent=2), highlight=False)
    return found


def sides_of(files: Sequence[str]) -> tuple[list[Source], list[Source]]:
    """Return the files of each method. Raises `UsageError` if that is not clear."""
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
