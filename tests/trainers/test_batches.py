"""Which tasks a step sees, and how their rollouts are run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("datasets", reason="needs the [train] extra")

from agentgym.core.messages import ToolCall
from agentgym.core.policy import Generation
from agentgym.core.task import GeneratedTasks, Task
from agentgym.envs.guess import GuessEnv
from agentgym.rollout import EnvFactory, Limits
from agentgym.trainers.batches import BatchRollouts, TaskRow, planned_rows
from agentgym.trainers.credit import Credit


def source(size: int | None) -> GeneratedTasks:
    return GeneratedTasks("t", lambda split, i: Task(f"t/{split}/{i}", split, "?"), {"train": size})


def indices(size: int | None, count: int, seed: int = 0) -> list[int]:
    return [row.index for row in planned_rows(source(size), count, seed)]


def test_tasks_come_in_an_order_that_depends_on_the_seed_alone():
    """Every task comes once before any comes again."""
    order = indices(10, 25)
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert order[:10] != order[10:20]
    assert order[:12] == indices(10, 12)
    assert order != indices(10, 25, seed=1)
    assert indices(None, 8)[:3] == indices(None, 3) != indices(None, 3, seed=1)


class Letters:
    """A codec over code points; 0 ends a message."""

    def open(self, messages: Sequence[Any], tools: Sequence[Any]) -> list[int]:
        return [1]

    def extend(self, observation: Sequence[Any], last_id: int) -> list[int]:
        return [1]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in ids if i)


class Guesser:
    """Guesses the same number in every turn, except that some sessions say something that cannot be read."""

    name, context = "guesser", 10_000

    def __init__(self, unreadable: Any = lambda session: False):
        self.codec, self.sessions, self.versions = Letters(), [], []
        self._unreadable = unreadable
        self._call = GuessEnv(dialect="compact").dialect.render("", [ToolCall("guess", {"number": 1})], GuessEnv.tools)

    def updated(self, version: int) -> None:
        self.versions.append(version)

    def release(self, session: str) -> None: ...

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
        self.sessions.append(session)
        said = [*map(ord, "?" if self._unreadable(session) else self._call), 0]
        return Generation(said, [-1.0] * len(said), "stop")


def rollouts(policy: Any, **settings: Any) -> BatchRollouts:
    factory = EnvFactory("guess", {"dialect": "compact", "max_turns": 1})
    credit = Credit(scheme=GuessEnv.scheme)
    return BatchRollouts(policy, factory, GuessEnv.default_tasks(), credit, Limits(retries=0), **settings)


def rows(*indices: int, group_size: int = 2) -> list[TaskRow]:
    return [TaskRow(index, seed=index) for index in indices for _ in range(group_size)]


def test_each_row_gets_its_trajectory_in_order():
    policy = Guesser()
    trajectories = rollouts(policy)(rows(5, 3), 7, training=True).trajectories
    assert [t.task_id for t in trajectories] == [f"guess/train/{i}" for i in (5, 5, 3, 3)]
    assert [t.attempt for t in trajectories] == [0, 1, 2, 3]
    assert policy.versions == [7]


def test_no_two_trajectories_of_a_step_are_drawn_alike_even_on_several_processes():
    """A group may straddle processes; what is drawn depends on the name of the session."""
    first, other = Guesser(), Guesser()
    rollouts(first)(rows(5, 3), 0, training=True, first=0)
    rollouts(other)(rows(3, 4), 0, training=True, first=4)
    assert len({*first.sessions, *other.sessions}) == 8


def test_episodes_and_weights_are_of_the_step_of_their_batch():
    policy = Guesser()
    batch = rollouts(policy, refill_rounds=1)
    steps = [{t.training_step for t in batch(rows(5, 3), step, training=True).trajectories} for step in (0, 1, 3)]
    assert steps == [{0}, {1}, {3}]
    assert policy.versions == [0, 1, 3]


def test_evaluation_replaces_nothing_and_is_at_no_step_of_training():
    trajectories = rollouts(Guesser(), refill_rounds=3)(rows(4), 7, training=False).trajectories
    assert {t.task_id for t in trajectories} == {"guess/train/4"}
    assert {t.training_step for t in trajectories} == {None}
