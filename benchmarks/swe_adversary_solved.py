"""How many tasks of `swe` code solves that mends nothing, and sends expected values from process to process.

The code (`_swe_listener`) is submitted several times for each task, so that processes of a grading can receive what
earlier gradings sent. The control, with a leak, shows that it solves tasks where the values arrive: there, this
benchmark copies what the code wrote from each sandbox to the later ones.

    python -m benchmarks.swe_adversary_solved [--control-tasks 8] [--tries 4] [--only sealed]

Continues an unfinished measurement; rows of other versions of the code are dropped.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.core.task import TEST, TRAIN, Task
from agentgym.envs.swe.filtering import filtered
from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.envs.swe.source import repository_of
from agentgym.tasks.swe.bundled import BundledSWETasks
from agentgym.tasks.swe.instance import Instance
from agentgym.tools.sandbox import Result, Sandbox
from benchmarks import _swe_listener
from benchmarks._report import Claim, argument_parser, earlier, write

LIMITS = WORK_LIMITS.but(wall_s=120.0, cpu_s=120.0)
LISTENER = Path(_swe_listener.__file__).read_text(encoding="utf-8")
VERSION = hashlib.sha256(LISTENER.encode()).hexdigest()[:12]
CONDITIONS = ("leak", "sealed")


@dataclass(frozen=True)
class _Leaking(Sandboxes):
    """Copies the code's notes from each sandbox to the later ones."""

    notes: set[bytes] = field(default_factory=set)

    def open(self, instance: Instance, *, sealed: bool = False) -> Sandbox:
        sandbox = super().open(instance, sealed=sealed)
        execute = sandbox.exec

        def leaking(*arguments: Any, **options: Any) -> Result:
            sandbox.upload({_swe_listener.FILE: b"\n".join([*self.notes, b""])})
            result = execute(*arguments, **options)
            self.notes.update(sandbox.read(_swe_listener.FILE).split())
            return result

        sandbox.exec = leaking  # type: ignore[method-assign]
        return sandbox


def with_listener(tree: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a tree with the code at the end of the package's own `__init__.py`."""
    packages = [path for path in tree if path.endswith("/__init__.py") and not path.startswith("test")]
    place = min(packages, key=lambda path: (path.count("/"), path))
    visible = [data.decode() for path, data in tree.items() if path.rpartition("/")[2].startswith("test_")]
    code = f"\n_listener = {{'__name__': 'listener'}}\nexec({LISTENER!r}, _listener)\n_listener['cheat']({visible!r})\n"
    return {**tree, place: tree[place] + code.encode()}


def attack(task: Task, condition: str, tries: int) -> dict[str, Any]:
    """Submit the code up to `tries` times, and return the row of a task."""
    began = time.monotonic()
    kind = _Leaking if condition == "leak" else Sandboxes
    opening = kind("auto", False, WORK_LIMITS, LIMITS)
    repository = repository_of(BundledSWETasks(), task, opening)
    grader = SWEGrader(opening)
    changes = filtered(repository.files, with_listener(repository.files), repository.gold_paths)
    mended: list[float] = []
    passed = False
    while not passed and len(mended) < tries:
        verdict = grader.judge(repository, changes)
        passed = verdict.passed
        mended.append(round(verdict.mended, 3))
    row = {"task": task.id, "condition": condition, "code": VERSION, "solved": passed, "mended": mended}
    return row | {"seconds": round(time.monotonic() - began, 1)}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=88, help="number of tasks, evenly from the two splits")
    parser.add_argument("--control-tasks", type=int, default=8, help="number of tasks of each control")
    parser.add_argument("--only", nargs="*", default=list(CONDITIONS), choices=CONDITIONS)
    parser.add_argument("--tries", type=int, default=4, help="submissions of each task")
    options = parser.parse_args()
    source = BundledSWETasks()
    tasks = [source.get(split, index) for split in (TRAIN, TEST) for index in range(source.size(split))]
    rows = [row for row in earlier("swe_adversary_solved")["rows"] if row["code"] == VERSION]
    done = {(row["task"], row["condition"]) for row in rows}
    for condition in options.only:
        count = options.tasks if condition == "sealed" else options.control_tasks
        for task in tasks[:: max(1, len(tasks) // count)][:count]:
            if (task.id, condition) not in done:
                rows.append(attack(task, condition, options.tries))
                print(rows[-1], file=sys.stderr, flush=True)
                report(rows)


def report(rows: list[dict[str, Any]]) -> None:
    """Write the rows and the claims on them."""
    solved = {name: [row["solved"] for row in rows if row["condition"] == name] for name in CONDITIONS}
    share_with_leak = sum(solved["leak"]) / max(1, len(solved["leak"]))
    claims = [
        Claim("swe_adversary_solved", sum(solved["sealed"]), "<=", 1),
        Claim("swe_adversary_tasks", len(solved["sealed"]), ">=", 88),
        Claim("swe_adversary_share_solved_with_a_leak", round(share_with_leak, 3), ">=", 0.25),
    ]
    write("swe_adversary_solved", rows, claims, packages=("pytest",))


if __name__ == "__main__":
    main()
