"""Run every gold query of a Spider- or BIRD-style folder through the environment: all must earn full marks.

Empty and constant answers are submitted to the same questions: none may pass.

python -m benchmarks.sql_gold --folder PATH
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

from agentgym.envs.sql import SQLEnv
from agentgym.errors import AgentGymError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.task import Task, iterate
from agentgym.tasks.sql.files import SpiderTasks
from benchmarks._report import Claim, write

CONSTANTS = ("SELECT 1 WHERE 0", "SELECT 0", "SELECT 1", "SELECT NULL", "0", "1", "NULL")


def grade(env: SQLEnv, task: Task) -> str:
    """Return `right` or another outcome. The comment makes the answer a different statement, which is run by itself."""
    return submit(env, task, f"{task.gold['sql']} -- again")


def submit(env: SQLEnv, task: Task, answer: str) -> str:
    """Return `right` or another outcome, for one answer."""
    env.reset(options={"task": task})
    try:
        step = env.step(assistant("", [ToolCall("submit", {"answer": answer})]))
    except AgentGymError as error:
        return f"{type(error).__name__}: {error}"
    return "right" if step.info.get("is_success") else text_of(step.observation[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    source = SpiderTasks(options.folder)
    env = SQLEnv(tasks=source)
    rows: list[dict[str, Any]] = []
    for split in source.splits:
        started = time.perf_counter()
        verdicts = Counter({task.id: grade(env, task) for task in iterate(source, split)}.values())
        elapsed = time.perf_counter() - started
        rows += [
            {"split": split, "verdict": verdict[:200], "questions": count, "split_s": round(elapsed, 2)}
            for verdict, count in verdicts.most_common()
        ]
    tasks = [task for split in source.splits for task in iterate(source, split)]
    passed = {answer: sum(submit(env, task, answer) == "right" for task in tasks) for answer in CONSTANTS}
    env.close()
    total = sum(row["questions"] for row in rows)
    right = sum(row["questions"] for row in rows if row["verdict"] == "right")
    claims = [
        Claim("sql_gold_right", right / total, ">=", 1.0),
        Claim("sql_gold_questions", total, ">=", 1),
        Claim("sql_gold_constants_right", sum(passed.values()), "<=", 0),
    ]
    rows += [{"answer": answer, "questions_passed": count} for answer, count in passed.items()]
    write("sql_gold", [*rows, {"left_out": len(source.left_out)}], claims)


if __name__ == "__main__":
    main()
