"""Honest attempts that fail: the work of a solution with a wrong end. What junk must not be paid more than."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from agentgym.checks.adversaries import calls_in
from agentgym.checks.catalog import CheckFailed
from agentgym.checks.play import Episode, assistant_call, play
from agentgym.env import Env
from agentgym.messages import ToolCall
from agentgym.rewards import SOLVED_AT
from agentgym.spaces import Action
from agentgym.steps import Solution
from agentgym.task import Task

ENOUGH = 2
"""Failing attempts looked for in each task; the best-paid one counts."""

_TRIES = 24
"""Ways of spoiling a solution that are tried in each task."""

_PER_STEP = 5
"""Of them, those that change the same step."""

_NUMBER = re.compile(r"\d+")


def failing_attempts(env: Env, solved: Episode, others: Sequence[Episode]) -> list[Episode]:
    """Return honest attempts at a solved task that fail; none where the solution cannot be spoiled.

    The environment's own `failing` is played if it has one. Otherwise the solution is played again with its last
    arguments changed, with the end of another task's solution, without the step before its end, or with an earlier step
    changed, until some of them fail.

    Args:
        env: Where they are played.
        solved: The solution's episode.
        others: Solutions of other tasks.

    Raises:
        CheckFailed: What the environment's own `failing` does solves the task.
    """
    own = env.failing(solved.task)
    if own is not None:
        attempt = play(env, solved.task, solved.seed, lambda env, task: _written(own))
        if attempt.outcome >= SOLVED_AT:
            raise CheckFailed(f"task {solved.task.id!r}: failing() solved it; give its end something wrong")
        return [attempt]
    ended: list[Episode] = []
    unended: list[Episode] = []
    for actions, _ in zip(_spoiled(env, solved, others), range(_TRIES), strict=False):
        attempt = play(env, solved.task, solved.seed, to_the_end(actions))
        if attempt.ended and attempt.outcome < SOLVED_AT:
            (ended if attempt.results[-1].terminated else unended).append(attempt)
        if len(ended) == ENOUGH:
            break
    return ended or unended[:ENOUGH]


def _written(moves: Solution) -> Iterator[Action]:
    """Turn a reference policy's calls into messages."""
    observation: Any = None
    while True:
        try:
            move = next(moves) if observation is None else moves.send(observation)
        except StopIteration:
            return
        observation = yield assistant_call(move) if isinstance(move, ToolCall) else move


def to_the_end(actions: Sequence[Action]) -> Any:
    """Return a player of `actions` that repeats the last one until the episode ends."""

    def player(env: Env, task: Task) -> Iterable[Action]:
        yield from (action for action in actions)
        while True:
            yield actions[-1]

    return player


def _spoiled(env: Env, solved: Episode, others: Sequence[Episode]) -> Iterator[list[Action]]:
    """Yield variations of a solution, the nearest first: its end comes from elsewhere only where it says something."""
    actions = solved.actions
    yield from ([*actions[:-1], action] for action in islice(spoiled_action(env, actions[-1]), _PER_STEP))
    for other in others[:_PER_STEP]:
        if other.actions and other.actions[-1] != actions[-1]:
            yield [*actions[:-1], other.actions[-1]]
    if len(actions) > 1:
        yield [*actions[:-2], actions[-1]]
    for place in reversed(range(len(actions) - 1)):
        for action in islice(spoiled_action(env, actions[place]), _PER_STEP):
            yield [*actions[:place], action, *actions[place + 1 :]]


def spoiled_action(env: Env, action: Action) -> Iterator[Action]:
    """Yield an action with one argument of its last call changed; text without a call with the text changed."""
    calls = calls_in(env, action)
    if not calls:
        yield from spoiled_values(action) if isinstance(action, str) else ()
        return
    last = calls[-1]
    for name, value in reversed(list(last.arguments.items())):
        for changed in spoiled_values(value):
            yield assistant_call(ToolCall(last.name, {**last.arguments, name: changed}))


def spoiled_values(value: Any) -> Iterator[Any]:
    """Yield values of the same type that are near `value`, but not equal to it."""
    found: list[Any] = []
    if isinstance(value, bool):
        found = [not value]
    elif isinstance(value, int | float):
        found = [value + 1, value - 1]
    elif isinstance(value, str):
        found = list(_spoiled_texts(value))
    elif isinstance(value, list):
        found = [value[:-1], value[::-1], *([*value[:-1], part] for part in spoiled_values(value[-1]))] if value else []
    elif isinstance(value, Mapping):
        found = [{**value, key: changed} for key, part in value.items() for changed in spoiled_values(part)]
    yield from (changed for changed in found if changed != value)


def _spoiled_texts(text: str) -> Iterator[str]:
    """Yield texts with another number, the last word reversed, or the last word or line left out."""
    numbers = list(_NUMBER.finditer(text))
    for number in (*numbers[-1:], *numbers[:1]):
        yield f"{text[: number.start()]}{int(number[0]) + 1}{text[number.end() :]}"
    words = text.split()
    if words:
        start = text.rindex(words[-1])
        yield text[:start] + words[-1][::-1] + text[start + len(words[-1]) :]
    if len(words) > 1:
        yield text[: text.rindex(words[-1])].rstrip()
    lines = text.rstrip().split("\n")
    if len(lines) > 2:
        yield "\n".join(lines[:-1])
