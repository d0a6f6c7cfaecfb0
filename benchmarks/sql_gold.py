"""Run every gold query of a Spider- or BIRD-style folder through the environment: all must earn full marks.

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
from agentgym.tasks.sql_files import SpiderTasks
from benchmarks._report import Claim, write


def grade(env: SQLEnv, task: Task) -> str:
    """Return `right`, or what came instead. The comment makes it another statement, which is run for itself."""
    env.reset(options={"task": task})
    try:
        step = env.step(assistant("", [ToolCall("submit", {"answer": f"{task.gold['sql']} -- again"})]))
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
    env.close()
    total = sum(row["questions"] for row in rows)
    right = sum(row["questions"] for row in rows if row["verdict"] == "right")
    claims = [Claim("sql_gold_right", right / total, ">=", 1.0), Claim("sql_gold_questions", total, ">=", 1)]
    write("sql_gold", rows, claims)


if __name__ == "__main__":
    main()
