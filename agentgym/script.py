"""Scripts: solutions and probes that play with access to the environment and the task's gold. Never models.

A model gets a `Seat` instead (`policy.ChatPolicy`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

from agentgym.engine.spaces import Action
from agentgym.engine.steps import Solution, StepResult
from agentgym.env import Env
from agentgym.messages import Message, ToolCall, assistant
from agentgym.task import Task

Move = ToolCall | Action
"""A script's move in one turn: a call, to be rendered in the environment's dialect, or a complete action."""

M = TypeVar("M", bound=Move)

ScriptedPlayer = Callable[[Env, Task], Iterable[Move]]
"""Plays a running episode by yielding moves. A generator is sent the observation after each move."""


def solution_player(env: Env, task: Task) -> Solution:
    """Play the environment's own solution."""
    return env.solution(task)


class Script(Generic[M]):
    """Takes moves one at a time.

    Args:
        moves: The moves, e.g. `env.solution(task)`. A generator is sent each observation.
    """

    def __init__(self, moves: Iterable[M]):
        self._moves = iter(moves)
        self._started = False

    def next_move(self, observation: list[Message]) -> M | None:
        """Return the next move, given the messages since the last one; `None` at the end of the script."""
        try:
            if self._started and isinstance(self._moves, Generator):
                return self._moves.send(observation)
            self._started = True
            return next(self._moves)
        except StopIteration:
            return None


def as_action(env: Env, move: Move) -> Action:
    """Return a move as an action, in the environment's dialect if it can express the move."""
    if not isinstance(move, ToolCall):
        return move
    try:
        return env.dialect.render("", [move], env.tools)
    except ValueError:
        # Not every dialect can express every call; an assistant message can.
        return assistant("", [move])


def steps(env: Env, moves: Iterable[Move]) -> Iterator[StepResult]:
    """Play moves in the running episode of `env` and yield each result, until the episode or the moves end."""
    script = Script(moves)
    observation: list[Message] = []
    while (move := script.next_move(observation)) is not None:
        result = env.step(as_action(env, move))
        yield result
        if result.terminated or result.truncated:
            return
        observation = result.observation
