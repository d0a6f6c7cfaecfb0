"""Plant small faults in graders, rewards, credit and rollouts, one at a time, and check whether their tests notice.

    python -m benchmarks.mutants [--sample 120] [--seed 0] [--files envs/sql/grading.py ...] [--jobs 2] [--log FILE]

Every fault is tested in a scratch copy of the tree with the tests of its file (`_mutant_targets.py`). These must pass
on the unchanged file, and fail if it cannot be imported. A mutant counts as killed if a test fails or does not finish.
Mutants in `_equivalent_mutants.py` are counted separately.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks._equivalent_mutants import EQUIVALENT
from benchmarks._mutant_runs import ROOT, Copies, Outcome, Run
from benchmarks._mutant_targets import TARGETS
from benchmarks._mutations import Mutant, draw
from benchmarks._report import Claim, argument_parser, write

UNUSABLE = "raise RuntimeError('no test may pass without this file')\n"
_BASELINE_S = 900.0
"""Wall-clock seconds that tests may take without any fault."""
_WHY = {(e.file, e.line, e.becomes): e.why for e in EQUIVALENT}


class Log:
    """Results of mutants from earlier runs, one JSON object per line.

    Args:
        path: The file, if any.
        again: Whether to test survivors again, e.g. after adding tests for them.
    """

    def __init__(self, path: Path | None, *, again: bool = True):
        self._path, self._again = path, again
        lines = path.read_text(encoding="utf-8").splitlines() if path and path.is_file() else []
        self._known = {row["key"]: row for row in map(json.loads, lines)}

    def known(self, mutant: Mutant) -> dict[str, Any] | None:
        """Return the row of a mutant that need not be tested again."""
        row = self._known.get(_key(mutant))
        return row if row and not (self._again and row["outcome"] == Outcome.SURVIVED) else None

    def add(self, mutant: Mutant, row: dict[str, Any]) -> None:
        """Append a row."""
        if self._path:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": _key(mutant), **row}) + "\n")


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.file}\n{mutant.source}".encode()).hexdigest()[:16]


def passing(copies: Copies, files: Sequence[str], pool: ThreadPoolExecutor) -> dict[str, float]:
    """Return the files whose tests pass on the unchanged code, with the duration of the tests in seconds."""
    tests = sorted({test for file in files for test in TARGETS[file]})
    runs = dict(zip(tests, pool.map(lambda test: copies.test((test,), _BASELINE_S), tests), strict=True))
    for test, run in runs.items():
        if run.outcome is not Outcome.SURVIVED:
            print(f"{test} does not pass as it is:\n{run.output[-1500:]}", file=sys.stderr)
    sound = [file for file in files if all(runs[test].outcome is Outcome.SURVIVED for test in TARGETS[file])]
    return {file: sum(runs[test].seconds for test in TARGETS[file]) for file in sound}


def untested(copies: Copies, rows: Sequence[dict[str, Any]], pool: ThreadPoolExecutor) -> set[str]:
    """Return the files whose tests pass even if the file cannot be imported, so that survivors prove nothing."""
    killed = {row["file"] for row in rows if row["outcome"] in (Outcome.KILLED, Outcome.TIMEOUT)}
    doubtful = sorted({row["file"] for row in rows if row["outcome"] == Outcome.SURVIVED} - killed)
    runs = pool.map(lambda file: copies.test(TARGETS[file], _BASELINE_S, (file, UNUSABLE)), doubtful)
    untested_files = {file for file, run in zip(doubtful, runs, strict=True) if run.outcome is Outcome.SURVIVED}
    for file in sorted(untested_files):
        print(f"{file}: its tests pass without it", file=sys.stderr)
    return untested_files


def try_all(mutants: Sequence[Mutant], jobs: int, log: Log, until: float) -> list[dict[str, Any]]:
    """Run the tests of every mutant; return a row for each that was tested."""
    with Copies(jobs) as copies, ThreadPoolExecutor(jobs) as pool:
        seconds = passing(copies, sorted({m.file for m in mutants if not log.known(m) and not _why(m)}), pool)

        def attempt(mutant: Mutant) -> dict[str, Any] | None:
            if why := _why(mutant):
                return _row(mutant, "equivalent", why=why)
            if row := log.known(mutant):
                return {name: value for name, value in row.items() if name != "key"}
            if mutant.file not in seconds or time.time() > until:
                return None
            # Several times what the tests took, since the machine may be busier by now.
            run: Run = copies.test(TARGETS[mutant.file], 30 + 6 * seconds[mutant.file], (mutant.file, mutant.source))
            row = _row(mutant, run.outcome, seconds=round(run.seconds, 1))
            log.add(mutant, row)
            print(f"{row['outcome']:9} {row['file']}:{row['number']}  {row['line']}  ->  {row['becomes']}", flush=True)
            return row

        rows = [row for row in pool.map(attempt, mutants) if row]
        left_out = untested(copies, rows, pool)
        return [row for row in rows if row["file"] not in left_out]


def _why(mutant: Mutant) -> str | None:
    place = (mutant.file, mutant.line)
    return _WHY.get((*place, mutant.becomes)) or _WHY.get((*place, None))


def _row(mutant: Mutant, outcome: str, **more: Any) -> dict[str, Any]:
    names = ("file", "number", "operator", "line", "becomes")
    return {**{name: getattr(mutant, name) for name in names}, "outcome": outcome, **more}


def claims_of(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """Return the share of killed mutants among those that could be killed."""
    counts = Counter(row["outcome"] for row in rows)
    killed = counts[Outcome.KILLED] + counts[Outcome.TIMEOUT]
    return [Claim("mutants_killed", round(killed / max(1, killed + counts[Outcome.SURVIVED]), 4), ">=", 0.9)]


def print_results(rows: Sequence[dict[str, Any]], sample: int) -> None:
    """Print the number of killed mutants per file, and every survivor."""
    count: Callable[[str], Counter[str]] = lambda file: Counter(r["outcome"] for r in rows if r["file"] == file)  # noqa: E731
    for file in sorted({row["file"] for row in rows}):
        print(f"{file}: " + ", ".join(f"{number} {outcome}" for outcome, number in sorted(count(file).items())))
    for row in rows:
        if row["outcome"] == Outcome.SURVIVED:
            print(f"survived: {row['file']}:{row['number']}\n    {row['line']}\n    {row['becomes']}")
    if len(rows) < sample:
        print(f"{sample - len(rows)} of {sample} mutants were not tested")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--sample", type=int, default=120, help="number of faults to try")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--files", nargs="+", default=sorted(TARGETS), choices=sorted(TARGETS), metavar="FILE")
    parser.add_argument("--jobs", type=int, default=2, help="number of faults to try concurrently")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no new fault after this many minutes")
    parser.add_argument("--log", type=Path, help="JSON lines of earlier results, to resume from")
    parser.add_argument("--as-logged", action="store_true", help="do not retry the survivors in the log")
    options = parser.parse_args()
    until = time.time() + 60 * options.minutes
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in options.files}
    mutants = draw(sources, options.sample, options.seed)
    rows = try_all(mutants, options.jobs, Log(options.log, again=not options.as_logged), until)
    print_results(rows, len(mutants))
    write("mutants", rows, claims_of(rows), packages=("cosmic-ray", "pytest", "hypothesis"))
    sys.exit(len(rows) < len(mutants))


if __name__ == "__main__":
    main()
