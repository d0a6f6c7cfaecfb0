"""Honest attempts that fail: a solution's work with one mistake. Junk must never be paid more than these attempts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from agentgym.checks.adversaries import calls_in
from agentgym.checks.outcomes import CheckFailed
from agentgym.checks.play import RecordedEpisode, assistant_call, play
from agentgym.engine.spaces import Action
from agentgym.env import Env
from agentgym.messages import ToolCall
from agentgym.rewards import SOLVED_AT
from agentgym.script import ScriptedPlayer
from agentgym.task import Task

ENOUGH = 2
"""Failing attempts to find per task; the best-paid one counts."""

_TRIES = 24
"""Maximum number of spoiled solutions to play per task."""

_PER_STEP = 5
"""Maximum number of variations of the same step."""

_NUMBER = re.compile(r"\d+")


def failing_attempts(env: Env, solved: RecordedEpisode, others: Sequence[RecordedEpisode]) -> list[RecordedEpisode]:
    """Return honest attempts at a solved task that fail, or an empty list if the solution cannot be spoiled.

    If the environment defines `failing`, that is played. Otherwise the solution is replayed with its last arguments
    changed, with the end of another task's solution, without the step before its end, or with an earlier step changed,
    until enough attempts fail.

    Args:
        env: The environment to play in.
        solved: The solution's episode.
        others: Solutions of other tasks.

    Raises:
        CheckFailed: The environment's own `failing` solves the task.
    """
    own = env.failing(solved.task)
    if own is not None:
        attempt = play(env, solved.task, solved.seed, lambda *_: own)
        if attempt.outcome >= SOLVED_AT:
            raise CheckFailed(f"task {solved.task.id!r}: failing() solved it; make it end with a mistake")
        return [attempt]
    ended: list[RecordedEpisode] = []
    unended: list[RecordedEpisode] = []
    for actions, _ in zip(_spoiled(env, solved, others), range(_TRIES), strict=False):
        attempt = play(env, solved.task, solved.seed, to_the_end(actions))
        if attempt.ended and attempt.outcome < SOLVED_AT:
            (ended if attempt.results[-1].terminated else unended).append(attempt)
        if len(ended) == ENOUGH:
            break
    return ended or unended[:ENOUGH]


def to_the_end(actions: Sequence[Action]) -> ScriptedPlayer:
    """Return a player of `actions` that repeats the last one until the episode ends."""

    def player(env: Env, task: Task) -> Iterable[Action]:
        yield from (action for action in actions)
        while True:
            yield actions[-1]

    return player


def _spoiled(env: Env, solved: RecordedEpisode, others: Sequence[RecordedEpisode]) -> Iterator[list[Action]]:
    """Yield variations of a solution, starting with those that change only its end."""
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
    """Yield variants of an action with one argument of its last call changed, or its text if it has no call."""
    calls = calls_in(env, action)
    if not calls:
        yield from spoiled_values(action) if isinstance(action, str) else ()
        return
    last = calls[-1]
    for name, value in reversed(list(last.arguments.items())):
        for changed in spoiled_values(value):
            yield assistant_call(ToolCall(last.name, {**last.arguments, name: changed}))


def spoiled_values(value: Any) -> Iterator[Any]:
    """Yield values of the same type that are close to `value` but not equal to it."""
    variants: list[Any] = []
    if isinstance(value, bool):
        variants = [not value]
    elif isinstance(value, int | float):
        variants = [value + 1, value - 1]
    elif isinstance(value, str):
        variants = list(_spoiled_texts(value))
    elif isinstance(value, list):
        variants = (
            [value[:-1], value[::-1], *([*value[:-1], part] for part in spoiled_values(value[-1]))] if value else []
        )
    elif isinstance(value, Mapping):
        variants = [{**value, key: changed} for key, part in value.items() for changed in spoiled_values(part)]
    yield from (changed for changed in variants if changed != value)


def _spoiled_texts(text: str) -> Iterator[str]:
    """Yield variants of a text: another number, the last word reversed, or the last word or line removed."""
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
