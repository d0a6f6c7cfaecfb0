"""Check that concurrent calls of tools have the same effect as calls in sequence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from agentgym.check.adversaries import calls_in
from agentgym.check.catalog import check
from agentgym.check.outcomes import Finding
from agentgym.check.play import CheckedEpisode, must_equal, play
from agentgym.check.seeding import SAME_EPISODE
from agentgym.check.subject import Subject
from agentgym.core.engine.spaces import Action, ActionSpace
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, assistant
from agentgym.core.toolset import Tool, ToolOptions, Toolset

_APART_S = 0.003
"""Seconds by which each call of a turn starts before the call written ahead of it."""

_EPISODES = 6
"""Maximum number of solutions to use: those with the most calls of concurrent tools."""

_SOLUTIONS, _RANDOM = 3, 2
"""Calls in the test turn: up to `_SOLUTIONS` of the solution, each twice, and `_RANDOM` random ones of each tool."""

_ADVICE = (
    "Move whatever a concurrent tool changes, or whatever depends on earlier calls, into a function that it returns; "
    "or declare the tool without `concurrent`."
)


@check(
    "parallel-calls",
    "concurrent calls of one turn have the same effect as calls in sequence",
    causes=SAME_EPISODE,
)
def parallel_calls(subject: Subject) -> Finding:
    """Add a turn of concurrent calls to solutions: the effect is the same in sequence and started in reverse order."""
    compared = 0
    with subject.env() as parallel, subject.env() as in_order:
        marked = [tool for tool in parallel.tools if tool.concurrent]
        if not marked:
            return "no tool is concurrent"
        waits: list[float] = []
        in_order.tools = Toolset(_DelayedTool(tool, None) for tool in in_order.tools)
        parallel.tools = Toolset(_DelayedTool(tool, waits) for tool in parallel.tools)
        turns = [(episode, *_concurrent_turn(in_order, episode, marked)) for episode in subject.episodes("solution")]
        for episode, before, calls in sorted(turns, key=lambda turn: -len(turn[2]))[:_EPISODES]:
            waits[:] = [_APART_S * later for later in range(len(calls))]
            expected, actual = (_trace_with_turn(env, episode, before, calls) for env in (in_order, parallel))
            must_equal(expected, actual, f"task {episode.task.id!r}, {len(calls)} calls at the same time", _ADVICE)
            compared += len(calls)
    return f"{compared} calls"


class _DelayedTool(Tool):
    """A tool that never runs concurrently, or delays its calls so that they start in reverse order.

    Args:
        tool: The tool.
        waits: Delays in seconds, the last call's first; `None` makes the tool sequential.
    """

    def __init__(self, tool: Tool, waits: list[float] | None):
        options = ToolOptions(tool.name, tool.max_chars, tool.concurrent and waits is not None)
        super().__init__(tool.name, tool.description, tool.parameters, options, is_async=tool.is_async)
        self._tool, self._waits = tool, waits

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated arguments. Raises `ToolError` saying what was expected."""
        return self._tool.check(arguments)

    def bound_to(self, env: Any) -> Callable[..., Any]:
        """Return the tool's function, delayed by the next of `waits`."""
        function = self._tool.bound_to(env)
        wait_s = self._waits.pop() if self.concurrent and self._waits else 0.0
        if not wait_s:
            return function
        return _delayed_async(function, wait_s) if self.is_async else _delayed(function, wait_s)


def _delayed(function: Callable[..., Any], wait_s: float) -> Callable[..., Any]:
    def run(**arguments: Any) -> Any:
        time.sleep(wait_s)
        return function(**arguments)

    return run


def _delayed_async(function: Callable[..., Any], wait_s: float) -> Callable[..., Any]:
    async def run(**arguments: Any) -> Any:
        await asyncio.sleep(wait_s)
        return await function(**arguments)

    return run


def _concurrent_turn(env: Env, solved: CheckedEpisode, marked: list[Tool]) -> tuple[int, list[ToolCall]]:
    """Return how many actions of a solution to play first, and the calls of the turn to add."""
    names = {tool.name for tool in marked}
    concurrent_calls = [
        (number, ToolCall(call.name, call.arguments))
        for number, action in enumerate(solved.actions)
        for call in calls_in(env, action)
        if call.name in names
    ]
    space = ActionSpace(env.tools, env.dialect, solved.seed)
    random_calls = [ToolCall(tool.name, space.sample_arguments(tool)) for tool in marked for _ in range(_RANDOM)]
    return (concurrent_calls[0][0] if concurrent_calls else 0), [
        *2 * [call for _, call in concurrent_calls[:_SOLUTIONS]],
        *random_calls,
    ]


def _trace_with_turn(env: Env, solved: CheckedEpisode, before: int, calls: list[ToolCall]) -> list[str]:
    """Return the trace of a solution with a turn of `calls` inserted after `before` actions."""
    env.max_calls_per_turn = len(calls)
    actions: list[Action] = [*solved.actions[:before], assistant("", calls), *solved.actions[before:]]
    return play(env, solved.task, solved.seed, lambda *_: iter(actions)).trace()


CHECKS = (parallel_calls,)
