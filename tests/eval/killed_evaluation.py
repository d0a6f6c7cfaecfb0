"""An evaluation to be killed, whose environment notes each episode that begins, and the scoring of its file."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from agentgym.commands import rescore, suite_runs
from agentgym.commands.replay import Replay
from agentgym.commands.rescore import rescore_file
from agentgym.env import Env
from agentgym.envs.errand import ErrandEnv
from agentgym.messages import ToolCall
from agentgym.policy import ScriptedPolicy
from agentgym.script import Move
from agentgym.suites import load_suite
from agentgym.task import Task

BEGUN = "AGENTGYM_TEST_BEGUN"
"""Names the variable with the file of the episodes that have begun: a line with the process and the task for each."""
HOLD = "AGENTGYM_TEST_HOLD"
"""Names the variable with the number of episodes that may begin: the next ones wait until the process is killed."""
CONCURRENCY = 4
STARTS = count()


class NotedErrand(ErrandEnv):
    """`errand`, whose episodes are noted when they begin."""

    def start(self, task: Task) -> None:
        if name := os.environ.get(BEGUN):
            with Path(name).open("a", encoding="utf-8") as file:
                file.write(f"{os.getpid()} {task.id}\n")
        if next(STARTS) >= int(os.environ.get(HOLD, sys.maxsize)):
            threading.Event().wait()
        super().start(task)


def clumsy(env: Env, task: Task) -> Iterator[Move]:
    """Play the solution, as somebody who often says something else in between, or loses interest."""
    draws = random.Random(task.id)
    for move in env.solution(task):
        if draws.random() < 0.1:
            return
        if draws.random() < 0.3:
            yield draws.choice(("Where was I?", "<tool_call>{", ToolCall("fetch", {"name": "Nobody"})))
        yield move


def main() -> None:
    if sys.argv[1] == "--rescore":
        rescore._BATCH = 10  # grades that are written at once
        # A single worker: of several, one that is overtaken could be held with an early trajectory.
        rescore_file(Replay(Path(sys.argv[2]), trust=True), workers=1)
        return
    suite_runs.load_policy = lambda name, **options: ScriptedPolicy(clumsy, "clumsy")
    suite, out = load_suite(sys.argv[1]), Path(sys.argv[2])
    suite_runs.run_suites(suite_runs.SuitesRequest([suite], ["clumsy"], out=out, concurrency=CONCURRENCY))


if __name__ == "__main__":
    main()
