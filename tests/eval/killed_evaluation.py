"""An evaluation for tests that kill it; its environment logs the start of each episode."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from agentgym.cli import suite_runs
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.policy import Move, ScriptedPolicy
from agentgym.core.task import Task
from agentgym.envs.errand import ErrandEnv
from agentgym.eval.suites import load_suite

START_LOG = "AGENTGYM_TEST_START_LOG"
"""Environment variable with the path of the log: a line with process and task for each started episode."""
HOLD = "AGENTGYM_TEST_HOLD"
"""Environment variable with the number of episodes that may start; later ones wait until the process is killed."""
CONCURRENCY = 4
STARTS = count()


class NotedErrand(ErrandEnv):
    """`errand` with a log of started episodes."""

    def start(self, task: Task) -> None:
        if name := os.environ.get(START_LOG):
            with Path(name).open("a", encoding="utf-8") as file:
                file.write(f"{os.getpid()} {task.id}\n")
        if next(STARTS) >= int(os.environ.get(HOLD, sys.maxsize)):
            threading.Event().wait()
        super().start(task)


def clumsy(env: Env, task: Task) -> Iterator[Move]:
    """Play the solution, but often insert another action or give up."""
    draws = random.Random(task.id)
    for move in env.solution(task):
        if draws.random() < 0.1:
            return
        if draws.random() < 0.3:
            yield draws.choice(("Where was I?", "<tool_call>{", ToolCall("fetch", {"name": "Nobody"})))
        yield move


def main() -> None:
    suite_runs.load_policy = lambda name, **options: ScriptedPolicy(clumsy, "clumsy")
    suite, out = load_suite(sys.argv[1]), Path(sys.argv[2])
    suite_runs.run_suites(suite_runs.SuitesRequest([suite], ["clumsy"], out=out, concurrency=CONCURRENCY))


if __name__ == "__main__":
    main()
