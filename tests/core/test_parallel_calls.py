"""Independent calls of one turn run at the same time, with the episode of running them one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agentgym import Channel, Env, InfrastructureError, Message, Task, TaskList, ToolCall, ToolError, UsageError, tool
from agentgym.checks import run_checks
from agentgym.endings import Reason
from agentgym.engine.steps import StepResult
from agentgym.engine.threads import blocks
from agentgym.messages import assistant, text_of
from agentgym.policy import FunctionPolicy
from agentgym.records.replay import replay
from agentgym.registry import make
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.trajectory import Trajectory

TASKS = TaskList([Task(id=f"desk/train/{n}", split="train", prompt="Look.", data={"n": n}) for n in range(3)])
LONG_S = 20.0


class Desk(Env):
    """Drawers that may be looked into at the same time, and a lamp that may not be touched meanwhile."""

    channels = {
        "outcome": Channel("1 if done"),
        "seen": Channel("what the drawers were worth", high=10.0, per_turn=True),
        "often": Channel("1 for a look", per_turn=True),
    }
    max_calls_per_turn = 8

    def start(self, task: Task) -> None:
        self.lit = False
        self.noted: list[str] = []
        self.met = threading.Barrier(2)
        self.looking = 0
        self.last, self.never = threading.Event(), threading.Event()

    @tool(concurrent=True)
    def meet(self) -> str:
        """Wait for another who waits."""
        self.met.wait(LONG_S)
        return "met"

    @tool(concurrent=True)
    def look(self, drawer: str, worth: float = 1.0) -> str:
        """Look into a drawer. All wait for the last one of the turn.

        Args:
            drawer: Its name.
            worth: What it is worth.
        """
        if drawer == "last":
            self.last.set()
        elif drawer != "only":
            self.last.wait(LONG_S)
        if drawer == "broken":
            raise OSError("the drawer fell out")
        self.reward("seen", worth)
        self.reward("often", 1.0)
        if drawer == "locked":
            raise ToolError("It is locked.")
        if drawer == "end":
            self.finish(Reason.SOLVED)
        return f"{drawer} by {'light' if self.lit else 'night'}"

    @tool(concurrent=True)
    def note(self, word: str) -> Callable[[], str]:
        """Note a word.

        Args:
            word: The word.
        """
        return lambda: self.noted.append(word) or " ".join(self.noted)

    @tool(concurrent=True)
    def ask(self) -> Callable[[], bool]:
        """Ask someone who never answers, in the order of the calls."""
        return lambda: self.never.wait(LONG_S)

    @tool
    def switch(self) -> str:
        """Switch the lamp."""
        self.lit = not self.lit
        return "on" if self.lit else "off"


class MixedDesk(Desk):
    """Some of its tools are asynchronous."""

    @tool(concurrent=True)
    async def wait(self) -> str:
        """Wait until the last drawer is open."""
        while not self.last.is_set():
            await asyncio.sleep(0.001)
        self.reward("seen", 3.0)
        return "waited"


def look(drawer: str, **arguments: Any) -> ToolCall:
    return ToolCall("look", {"drawer": drawer, **arguments})


def played(*calls: ToolCall, kind: type[Env] = Desk) -> StepResult:
    env = kind(tasks=TASKS)
    env.reset(seed=0)
    try:
        return env.step(assistant("", list(calls)))
    finally:
        env.close()


def texts(observation: list[Message]) -> list[str]:
    return [text_of(message) for message in observation]


def in_order(*calls: ToolCall) -> StepResult:
    """The same turn, one call after the other. None waits, so the last one comes first."""

    class Waitless(Desk):
        def start(self, task: Task) -> None:
            super().start(task)
            self.last.set()

    token = blocks.set(True)
    try:
        return played(*calls, kind=Waitless)
    finally:
        blocks.reset(token)


def test_blocking_calls_run_at_the_same_time():
    assert texts(played(ToolCall("meet"), ToolCall("meet")).observation) == ["met", "met"]


def test_results_keep_the_order_of_the_calls():
    result = played(look("a"), look("b"), look("last"))
    assert texts(result.observation) == ["a by night", "b by night", "last by night"]
    assert [message.get("tool_call_id") for message in result.observation] == ["call00001", "call00002", "call00003"]


def test_dependent_calls_run_between_the_runs_of_independent_ones():
    result = played(look("a"), look("last"), ToolCall("switch"), look("b"), ToolCall("switch"), look("c"))
    assert texts(result.observation) == ["a by night", "last by night", "on", "b by light", "off", "c by night"]


def test_what_a_returned_function_changes_changes_in_the_order_of_the_calls():
    result = played(*(ToolCall("note", {"word": word}) for word in "abc"))
    assert texts(result.observation) == ["a", "a b", "a b c"]
    assert texts(played(ToolCall("note", {"word": "alone"})).observation) == ["alone"]


TURNS = {
    "rewards that round differently": (look("a", worth=0.1), look("b", worth=0.2), look("last", worth=0.3)),
    "mistakes": (look("locked"), look("a", worth="much"), ToolCall("look"), look("last"), ToolCall("lok")),
    "an end in the middle": (look("a"), look("end"), look("b"), look("last"), ToolCall("switch")),
    "an end before a failure": (look("end"), look("broken"), look("last")),
    "a mixture": (look("a"), look("last"), ToolCall("switch"), look("b"), ToolCall("note", {"word": "x"})),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_turn_is_the_same_as_one_call_after_the_other(name: str):
    assert played(*TURNS[name]) == in_order(*TURNS[name])


def test_a_mistake_is_the_result_of_its_call_alone():
    result = played(look("a"), look("locked"), ToolCall("look", {"box": 1}), look("last"))
    shown = texts(result.observation)
    assert (shown[0], shown[1], shown[3]) == ("a by night", "Error: It is locked.", "last by night")
    assert "argument 'drawer' is missing" in shown[2]


def test_no_call_counts_after_one_that_ends_the_episode():
    result = played(look("end", worth=2.0), look("last", worth=5.0))
    assert texts(result.observation) == ["end by night", "Error: the episode has ended, so this call did not run."]
    assert (result.info["rewards"]["seen"], result.info["counts"]["calls"]) == (2.0, 1)


def test_a_failure_surfaces_once_and_fails_the_episode():
    with pytest.raises(InfrastructureError, match="OSError: the drawer fell out"):
        played(look("broken"), look("broken"), look("last"))


class Exits(Desk):
    """A tool that would end the process."""

    @tool(concurrent=True)
    def leave(self) -> str:
        """Leave."""
        raise SystemExit(3)


def test_a_tool_that_exits_fails_the_episode_and_nothing_else():
    with pytest.raises(InfrastructureError, match="SystemExit: 3"):
        played(ToolCall("leave"), ToolCall("leave"), kind=Exits)


def test_asynchronous_and_blocking_calls_run_together():
    result = played(ToolCall("wait"), look("a"), ToolCall("wait"), look("last"), kind=MixedDesk)
    assert texts(result.observation) == ["waited", "a by night", "waited", "last by night"]
    assert result.info["rewards"]["seen"] == 8.0


def test_more_calls_in_a_turn_are_not_paid_more_than_the_channel_s_range():
    assert played(look("a"), look("b"), look("last")).info["rewards"]["often"] == 1.0


@pytest.mark.parametrize(
    ("env_id", "channel", "call"),
    [
        ("search", "searches", lambda n: ToolCall("search", {"query": f"river {n}"})),
        ("code", "tool_cost", lambda n: ToolCall("python", {"code": f"print({n})"})),
    ],
)
def test_several_calls_in_a_turn_cost_as_much_as_in_several_turns(env_id: str, channel: str, call: Any):
    calls = [call(number) for number in range(3)]
    env = make(env_id, max_calls_per_turn=3)
    env.reset(seed=0)
    together = env.step(assistant("", calls)).info["rewards"][channel]
    env.reset(seed=0)
    apart = [env.step(assistant("", [one])).info["rewards"][channel] for one in calls]
    env.close()
    assert together == sum(apart) == 3.0


def trajectory(limits: Limits | None = None, *calls: ToolCall, kind: str = "Desk", workers: Any = None) -> Trajectory:
    turns = iter([assistant("", list(calls)), None])
    policy = FunctionPolicy("caller", lambda _: next(turns, None))
    factory = EnvFactory(f"tests.test_parallel_calls:{kind}", {"tasks": TASKS})
    limits = limits or Limits(retries=0)
    (found,) = asyncio.run(collect([Job(TASKS.get("train", 0), 0)], policy, factory, limits, workers))
    return found


def test_a_recorded_turn_replays_and_a_snapshot_of_it_restores():
    found = trajectory(None, look("a", worth=0.1), look("locked"), look("b", worth=0.2), look("last", worth=0.3))
    env = Desk(tasks=TASKS)
    assert found.reason is Reason.GAVE_UP
    assert replay(found, env) is None
    env.reset(seed=0)
    env.step(assistant("", [look("a"), look("last")]))
    saved, again = env.snapshot(), Desk(tasks=TASKS)
    again.restore(saved)
    last = assistant("", [look("b"), look("last")])
    assert again.step(last) == env.step(last)
    env.close()
    again.close()


@pytest.mark.parametrize("kind", ["Desk", "MixedDesk"])
def test_the_time_limit_of_a_tool_holds_for_each_call(kind: str):
    """The second call never returns; the others, which take no time, do not extend its time."""
    found = trajectory(Limits(retries=0, tool_timeout_s=0.2), look("only"), ToolCall("meet"), look("only"), kind=kind)
    assert (found.reason, found.component) == (Reason.TOOL_TIME, "step")
    assert "meet" in str(found.error)


@pytest.mark.parametrize("kind", ["Desk", "MixedDesk"])
@pytest.mark.parametrize("count", [1, 2])
def test_the_time_limit_of_a_tool_holds_for_a_function_that_it_returned(kind: str, count: int):
    found = trajectory(Limits(retries=0, tool_timeout_s=0.2), *[ToolCall("ask")] * count, kind=kind)
    assert (found.reason, found.component) == (Reason.TOOL_TIME, "step")
    assert "ask" in str(found.error)


def test_the_number_of_calls_in_a_turn_is_an_argument_and_the_model_is_told():
    one, several = (Desk(tasks=TASKS, max_calls_per_turn=number) for number in (1, 4))
    assert "one function at a time" in text_of(one.reset(seed=0)[0][0])
    assert "one or more functions" in text_of(several.reset(seed=0)[0][0])
    refused = texts(one.step(assistant("", [look("only"), look("only")])).observation)
    assert all("Call one tool at a time, not 2" in text for text in refused)
    with pytest.raises(UsageError, match="max_calls_per_turn must be a whole number from 1, not 0"):
        Desk(tasks=TASKS, max_calls_per_turn=0)


class Nested(Desk):
    """Plays another desk in a drawer."""

    @tool(concurrent=True)
    def inside(self) -> str:
        """Look into a desk within the desk."""
        return str(played(look("only", worth=4.0)).info["rewards"]["seen"])


def test_what_happens_in_an_environment_inside_of_a_tool_stays_there():
    result = played(ToolCall("inside"), ToolCall("inside"), kind=Nested)
    assert (texts(result.observation), result.info["rewards"]["seen"]) == (["4.0", "4.0"], 0.0)


def test_the_search_environment_declares_search_and_passes_the_comparison():
    row = run_checks("search", only=["makes", "parallel-calls"]).row("parallel-calls")
    assert (row.status, int(row.message.split()[0]) > 24) == ("pass", True)
