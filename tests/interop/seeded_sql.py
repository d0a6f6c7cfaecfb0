"""`sql` whose openings depend on the seed too, so that a way to play that loses seeds is found out."""

from __future__ import annotations

from agentgym.envs.sql import SQLEnv
from agentgym.task import Task

SEEDED_SQL = "tests.interop.seeded_sql:SeededSQL"


class SeededSQL(SQLEnv):
    """Answer a question about a database, after a number that says nothing.

    Task, Tools, Observation, Reward, Episode end: those of `sql`.
    Version history: none, it is for tests.
    """

    def start(self, task: Task) -> str:
        return f"{super().start(task)}\nThis is case {self.np_random.integers(1_000_000_000)}."
