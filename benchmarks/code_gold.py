"""Grade public code benchmarks through the environment: gold passes; wrong programs and cheats do not.

python -m benchmarks.code_gold --humaneval PATH --quixbugs PATH

`buggy` is the program that QuixBugs gives to repair. `mutated` is the gold program with one small edit: the tests of
the benchmark may miss it, so the verdict is compared with that of the plain test, run in a sandbox in one process with
the program. `stub` returns nothing, and `equal` an object that claims to equal everything.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym.envs.code import CodeEnv
from agentgym.errors import AgentGymError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.task import Task, iterate
from agentgym.tasks.code.bugs import edits
from agentgym.tasks.code.files import CodeFileTasks
from agentgym.tools.sandbox import open_sandbox
from benchmarks._report import Claim, write

MUTANTS = 3
"""Mutated programs tried for each task."""
EQUAL = "class Equal:\n    __eq__ = lambda self, other: True\n    __ne__ = lambda self, other: False\n"


def submissions(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the submissions for a task: kind and source."""
    gold, name = task.gold["code"], task.data["entry_point"]
    yield "gold", f"# again\n{gold}"
    yield "stub", f"def {name}(*args, **kwargs):\n    pass\n"
    yield "equal", f"{EQUAL}def {name}(*args, **kwargs):\n    return Equal()\n"
    if "code" in task.data:
        yield "buggy", task.data["code"]
    for mutant in mutants(gold):
        yield "mutated", mutant


def mutants(source: str) -> Iterator[str]:
    """Yield copies of a program with one edit each, spread over the program."""
    tree = ast.parse(source)
    found = edits(tree)
    for edit in found[:: max(1, len(found) // MUTANTS)][:MUTANTS]:
        with edit.applied():
            yield ast.unparse(tree)


def verdict(env: CodeEnv, task: Task, source: str) -> tuple[str, str]:
    """Return `passes`, `fails` or another outcome; and how it was graded."""
    env.reset(options={"task": task})
    try:
        step = env.step(assistant("", [ToolCall("submit", {"answer": source})]))
    except AgentGymError as error:
        return f"{type(error).__name__}: {error}", ""
    if not step.terminated:
        return f"refused: {text_of(step.observation[-1])}", ""
    return "passes" if step.info["is_success"] else "fails", step.info["grading"]


def plainly(task: Task, source: str) -> str:
    """Return the verdict of the check itself, in one process with the program; honest programs only."""
    check, prelude, name = task.gold["check"], task.data.get("prelude", ""), task.data["entry_point"]
    # In one process, but not in one namespace, so that a program cannot change the helpers of its own tests.
    program = f"mine, theirs = {{}}, {{}}\nexec({prelude + source!r}, mine)\nexec({prelude!r}, theirs)\n"
    program += f"theirs[{name!r}] = mine[{name!r}]\nexec({check!r}, theirs)\ntheirs['check'](mine[{name!r}])\n"
    with open_sandbox() as sandbox:
        return "passes" if sandbox.exec(code=program).ok else "fails"


def grade(name: str, path: Path) -> list[dict[str, Any]]:
    """Grade every submission for every task of a benchmark."""
    source = CodeFileTasks(path, format=name)
    env = CodeEnv(tasks=source, split=source.splits[0])
    rows: Counter[tuple[str, ...]] = Counter()
    started = time.perf_counter()
    for task in chain.from_iterable(iterate(source, split) for split in source.splits):
        for kind, code in submissions(task):
            found, how = verdict(env, task, code)
            plain = plainly(task, code) if kind in ("gold", "mutated") and "check" in task.gold else ""
            rows[name, kind, found[:200], how, plain] += 1
            if plain not in ("", found) or (found != "passes") == (kind == "gold"):
                print(f"{task.id} {kind}: {found[:300]} ({how}), plainly {plain or 'not run'}")
    env.close()
    elapsed = time.perf_counter() - started
    print(f"{name}: {sum(rows.values())} submissions in {elapsed:.1f} s; left out: {len(source.left_out)}")
    keys = ("benchmark", "submission", "verdict", "grading", "plainly")
    return [dict(zip(keys, row, strict=True)) | {"count": count} for row, count in sorted(rows.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--humaneval", type=Path, help="HumanEval's JSON lines file")
    parser.add_argument("--quixbugs", type=Path, help="the folder of QuixBugs, or a JSON lines file made from it")
    options = parser.parse_args()
    given = {name: path for name, path in vars(options).items() if path is not None}
    if not given:
        parser.error("give --humaneval or --quixbugs")
    rows = [row for name, path in given.items() for row in grade(name, path)]
    claims: list[Claim] = []
    for name in given:
        claims.append(Claim(f"code_gold_{name}_gold_passes", _share(rows, name, "gold", "passes"), ">=", 1.0))
        for cheat in ("stub", "equal"):
            claims.append(Claim(f"code_gold_{name}_{cheat}_passes", _share(rows, name, cheat, "passes"), "<=", 0.0))
        claims.append(Claim(f"code_gold_{name}_agrees_with_the_plain_test", _agreement(rows, name), ">=", 1.0))
    if "quixbugs" in given:
        claims.append(Claim("code_gold_quixbugs_buggy_passes", _share(rows, "quixbugs", "buggy", "passes"), "<=", 0.0))
    write("code_gold", rows, claims)


def _agreement(rows: list[dict[str, Any]], benchmark: str) -> float:
    """Return the share of honest programs that are judged as the plain test judges them."""
    of = [row for row in rows if row["benchmark"] == benchmark and row["plainly"]]
    return round(
        sum(row["count"] for row in of if row["verdict"] == row["plainly"]) / sum(row["count"] for row in of), 4
    )


def _share(rows: list[dict[str, Any]], benchmark: str, submission: str, verdict: str) -> float:
    of = [row for row in rows if (row["benchmark"], row["submission"]) == (benchmark, submission)]
    total = sum(row["count"] for row in of)
    return round(sum(row["count"] for row in of if row["verdict"] == verdict) / max(1, total), 4)


if __name__ == "__main__":
    main()
