"""Concurrent calls of one turn give the same episode as running them one after the other."""

from __future__ import annotations

import pytest

from agentgym import Env, InfrastructureError, Message, Task, ToolCall
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import StepResult
from agentgym.core.engine.threads import blocks
from agentgym.core.messages import assistant, text_of
from agentgym.core.replay import replay
from tests.desks import TASKS, Desk, MixedDesk, look, trajectory


def played(*calls: ToolCall, kind: type[Env] = Desk) -> StepResult:
    env = kind(tasks=TASKS)
    env.reset(seed=0)
    try:
        return env.step(assistant("", list(calls)))
    finally:
        env.close()


def texts(observation: list[Message]) -> list[str]:
    return [text_of(message) for message in observation]


class WaitlessDesk(Desk):
    """Nothing waits for the last drawer."""

    def start(self, task: Task) -> None:
        super().start(task)
        self.last.set()


def in_order(*calls: ToolCall) -> StepResult:
    """Play the same turn, one call after the other."""
    token = blocks.set(True)
    try:
        return played(*calls, kind=WaitlessDesk)
    finally:
        blocks.reset(token)


def test_independent_calls_run_concurrently_and_results_keep_their_order():
    assert texts(played(ToolCall("meet"), ToolCall("meet")).observation) == ["met", "met"]
    result = played(look("a"), look("b"), look("last"))
    assert texts(result.observation) == ["a by night", "b by night", "last by night"]
    assert [message.get("tool_call_id") for message in result.observation] == ["call00001", "call00002", "call00003"]
    assert result.info["rewards"]["often"] == 1.0, "a channel stays in its range"
    result = played(ToolCall("wait"), look("a"), ToolCall("wait"), look("last"), kind=MixedDesk)
    assert texts(result.observation) == ["waited", "a by night", "waited", "last by night"]
    assert result.info["rewards"]["seen"] == 8.0


def test_dependent_calls_run_between_batches_of_independent_ones():
    result = played(look("a"), look("last"), ToolCall("switch"), look("b"), ToolCall("switch"), look("c"))
    assert texts(result.observation) == ["a by night", "last by night", "on", "b by light", "off", "c by night"]


TURNS = {
    "rewards that round differently": (look("a", worth=0.1), look("b", worth=0.2), look("last", worth=0.3)),
    "mistakes": (look("locked"), look("a", worth="much"), ToolCall("look"), look("last"), ToolCall("lok")),
    "an end in the middle": (look("a"), look("end"), look("b"), look("last"), ToolCall("switch")),
    "an end before a failure": (look("end"), look("broken"), look("last")),
    "a mixture": (look("a"), look("last"), ToolCall("switch"), look("b"), ToolCall("note", {"word": "x"})),
}


def test_a_concurrent_turn_equals_sequential_calls():
    for name, calls in TURNS.items():
        assert played(*calls) == in_order(*calls), name


def test_a_mistake_is_the_result_of_its_call_and_no_call_counts_after_the_end():
    result = played(look("a"), look("locked"), ToolCall("look", {"box": 1}), look("last"))
    first, locked, missing, last = texts(result.observation)
    assert (first, locked, last) == ("a by night", "Error: It is locked.", "last by night")
    assert "argument 'drawer' is missing" in missing
    result = played(look("end", worth=2.0), look("last", worth=5.0))
    assert texts(result.observation) == ["end by night", "Error: the episode has ended, so this call did not run."]
    assert (result.info["rewards"]["seen"], result.info["counts"]["calls"]) == (2.0, 1)


def test_a_failure_fails_the_episode_once():
    with pytest.raises(InfrastructureError, match="OSError: the drawer fell out"):
        played(look("broken"), look("broken"), look("last"))


def test_a_concurrent_turn_replays_and_restores():
    recorded = trajectory(None, look("a", worth=0.1), look("locked"), look("b", worth=0.2), look("last", worth=0.3))
    env = Desk(tasks=TASKS)
    assert recorded.reason is Reason.GAVE_UP
    assert replay(recorded, env) is None
    env.reset(seed=0)
    env.step(assistant("", [look("a"), look("last")]))
    saved, again = env.snapshot(), Desk(tasks=TASKS)
    again.restore(saved)
    last = assistant("", [look("b"), look("last")])
    assert again.step(last) == env.step(last)
    env.close()
    again.close()
