"""Episodes played by explicit moves, for tests of rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution, StepResult
from agentgym.core.env import Env
from agentgym.core.messages import Message, ToolCall, text_of
from agentgym.core.policy import Script, steps
from agentgym.core.task import Task

Moves = Generator[ToolCall, list[Message], None]
Play = Callable[[Env], Solution]
"""A policy: a generator of calls for the environment's running episode, which is sent each observation."""


class EpisodeResult(NamedTuple):
    """What became of an episode."""

    paid: float
    channels: Counter[str]
    solved: bool


def call(env: Env, name: str, /, **arguments: Any) -> StepResult:
    """Take one action."""
    return env.step({"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]})


def said(step: StepResult) -> str:
    """Return the text of the last message of an observation."""
    return text_of(step.observation[-1])


def play_solution(env: Env) -> StepResult:
    """Play the reference solution to its end; return the last step."""
    *_, last = steps(env, env.solution(env.task))
    return last


def play_episode(env: Env, task: Task, play: Play) -> EpisodeResult:
    """Play an episode; where the moves end before it does, it is given up."""
    env.reset(seed=0, options={"task": task})
    paid, channels = 0.0, Counter[str]()
    for result in _results(env, play(env)):
        paid += result.reward
        channels.update(result.info["rewards"])
    return EpisodeResult(paid, channels, channels["outcome"] >= 1.0)


def _results(env: Env, moves: Solution) -> Iterator[StepResult]:
    yield from steps(env, moves)
    if env.reason is None:
        yield env.interrupt(Reason.GAVE_UP)


def failing_honestly(last: ToolCall) -> Play:
    """Return the solution with its last call replaced: an honest attempt that fails."""

    def play(env: Env) -> Moves:
        script = Script(env.solution(env.task))
        call = script.next_move([])
        while isinstance(call, ToolCall) and call.name != last.name:
            call = script.next_move((yield call))
        yield last

    return play


def calls(*moves: ToolCall) -> Play:
    """Return the policy that makes the same calls in every episode."""

    def play(env: Env) -> Moves:
        remaining = iter(moves)
        while (move := next(remaining, None)) is not None:
            yield move

    return play
