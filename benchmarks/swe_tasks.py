"""Tasks made from real packages: how many validate, and the verdicts on the solution, no change, and honest trees.

    pip download --no-binary :all: --no-deps boltons==26.2.0 cachetools==8.0.0 inflection==0.5.1 isodate==0.7.2 \\
        mistune==3.4.0 parse==1.22.4 schema==0.7.8 semver==3.1.1 simpleeval==1.0.8 sqlparse==0.6.1 tabulate==0.10.0 \\
        tomlkit==0.15.2 toolz==1.2.0 voluptuous==0.16.0
    agentgym tasks build swe --from boltons-26.2.0.tar.gz --from ... --out made -n 210 --workers 2
    python -m benchmarks.swe_tasks made
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from agentgym.engine.steps import StepResult
from agentgym.envs.swe import SWEEnv
from agentgym.envs.swe.false_positives import false_accusations
from agentgym.envs.swe.grading import Grader
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.envs.swe.source import InstanceTasks, repository_of
from agentgym.errors import TaskError
from agentgym.messages import ToolCall
from agentgym.script import Move, steps
from agentgym.task import Task, iterate
from benchmarks._report import Claim, write

TEST_LIMITS = WORK_LIMITS.but(wall_s=120.0, cpu_s=120.0)


def play(env: SWEEnv, task: Task, moves: Iterable[Move]) -> StepResult:
    """Play moves until the episode ends."""
    env.reset(options={"task": task})
    *_, last = steps(env, moves)
    if last.terminated or last.truncated:
        return last
    raise RuntimeError(f"{task.id}: the episode did not end")


def why_not(step: StepResult) -> str:
    """Return details of work that did not pass."""
    info = step.info
    return f"mended {info['rewards']['mended']}, tampered {info['tampered']}, error {info['tests_error'][:300]!r}"


def examine(file: Path, task: Task) -> dict[str, Any]:
    """Return the verdicts on the solution, on a null patch, and on honest trees graded to the end."""
    source = InstanceTasks(file)
    sandboxes = Sandboxes("auto", False, WORK_LIMITS, TEST_LIMITS)
    with_solution = SWEEnv(tasks=source, solution_style="short")
    try:
        solved = play(with_solution, task, with_solution.solution(task))
        nothing = play(with_solution, task, [ToolCall("submit")])
        honest = false_accusations([repository_of(source, task, sandboxes)], Grader(sandboxes), repeats=1)
    except TaskError as error:
        return {"task": task.id, "difficulty": task.difficulty, "unusable": str(error)[:300]}
    finally:
        with_solution.close()
    return {
        "task": task.id,
        "difficulty": task.difficulty,
        "solution": float(solved.info["is_success"]),
        "why_not": "" if solved.info["is_success"] else why_not(solved),
        "null_patch": float(nothing.info["is_success"]),
        "honest_runs": honest.runs,
        "honest_runs_accused": honest.accused,
        "gold_refused": honest.refused,
        "changed_tests_run": honest.changed,
        "deciding_tests_without_changed_form": sum(honest.unchanged.values()),
        "manner": next(iter(honest.manners)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("made", type=Path, help="the folder that `agentgym tasks build swe` wrote")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    file = options.made / "instances.jsonl"
    source = InstanceTasks(file)
    tasks = [task for split in source.splits for task in iterate(source, split)]
    rows = []
    with ProcessPoolExecutor(options.workers) as workers:
        for row in workers.map(partial(examine, file), tasks):
            rows.append(row)
            print(f"{len(rows)}/{len(tasks)} {row}", file=sys.stderr)
    report = json.loads((options.made / "report.json").read_text(encoding="utf-8"))
    kept = ("package", "version", "tests", "dropped_tests", "sites", "tried", "verdicts", "rejected", "instances")
    packages = [{key: package[key] for key in (*kept, "minutes")} for package in report["packages"]]
    usable = [row for row in rows if "unusable" not in row]
    counted = ("honest_runs", "honest_runs_accused", "gold_refused", "deciding_tests_without_changed_form")
    total = Counter({key: sum(row[key] for row in usable) for key in counted})
    claims = [
        Claim("swe_tasks_built", len(usable), ">=", 200),
        Claim("swe_packages", sum(package["instances"] > 0 for package in packages), ">=", 6),
        Claim("swe_solution_success", sum(row["solution"] for row in usable) / len(usable), ">=", 1.0),
        Claim("swe_null_patch_success", sum(row["null_patch"] for row in usable) / len(usable), "<=", 0.0),
        Claim("swe_false_accusations", total["honest_runs_accused"], "<=", 0),
        Claim("swe_gold_refused", total["gold_refused"], "<=", 0),
        Claim("swe_deciding_tests_without_changed_form", total["deciding_tests_without_changed_form"], "<=", 0),
        Claim("swe_build_minutes", report["minutes"], "<=", 60),
    ]
    write("swe_tasks", [*packages, *rows], claims, packages=("pytest",))


if __name__ == "__main__":
    main()
