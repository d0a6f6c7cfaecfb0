"""Honest attempts that fail: a solution's work with one mistake. Junk must never be paid more than these attempts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from agentgym.check.adversaries import adversaries, calls_in, ending_tools
from agentgym.check.outcomes import CheckFailed
from agentgym.check.play import CheckedEpisode, assistant_call, canonical, play
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.policy import ScriptedPlayer
from agentgym.core.rewards import SOLVED_AT, Scheme
from agentgym.core.task import Task

ENOUGH = 2
"""Failing attempts to find per task; the best-paid one counts."""

_TRIES = 24
"""Maximum number of spoiled solutions to play per task."""

_PER_STEP = 5
"""Maximum number of variations of the same step."""

_NUMBER = re.compile(r"\d+")


def failing_attempts(env: Env, solved: CheckedEpisode, others: Sequence[CheckedEpisode]) -> list[CheckedEpisode]:
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
    ended: list[CheckedEpisode] = []
    unended: list[CheckedEpisode] = []
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


def _spoiled(env: Env, solved: CheckedEpisode, others: Sequence[CheckedEpisode]) -> Iterator[list[Action]]:
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


PER_TASK = 16
"""Maximum number of stumbles tried per solution, spread over its length."""


class Slip(StrEnum):
    """The kinds of mistake."""

    OMITTED = "left out"
    TWICE = "done twice"
    EARLY = "done too early"
    WRONG = "done with a wrong argument"


@dataclass(frozen=True)
class Stumble:
    """A solution with a mistake in one action."""

    slip: Slip
    index: int
    """Index of the action in the solution, from 0."""
    actions: tuple[Action, ...]

    @property
    def name(self) -> str:
        """Name of the player, for messages."""
        return f"stumbling (action {self.index + 1} of the solution {self.slip})"


def stumbles_of(env: Env, solved: CheckedEpisode) -> list[Stumble]:
    """Return up to `PER_TASK` stumbles of a solution."""
    stumbles = list(_stumbles(env, solved.actions))
    step = max(1, -(-len(stumbles) // PER_TASK))
    return stumbles[::step]


def play_stumble(env: Env, solved: CheckedEpisode, stumble: Stumble) -> CheckedEpisode:
    """Play a stumble; the episode may remain unfinished."""
    return play(env, solved.task, solved.seed, lambda *_: iter(stumble.actions), stumble.name)


def _stumbles(env: Env, actions: Sequence[Action]) -> Iterator[Stumble]:
    for index, action in enumerate(actions):
        before, after = tuple(actions[:index]), tuple(actions[index + 1 :])
        is_last = not after
        if not is_last:
            yield Stumble(Slip.OMITTED, index, before + after)
            yield Stumble(Slip.TWICE, index, (*before, action, action, *after))
            if canonical(after[0]) != canonical(action):
                yield Stumble(Slip.EARLY, index + 1, (*before, after[0], action, *after[1:]))
        for wrong in spoiled_action(env, action):
            yield Stumble(Slip.WRONG, index, (*before, wrong, *((action,) if is_last else after)))
            break


@dataclass(frozen=True)
class Contest:
    """One task, played by adversaries and by honest attempts that fail."""

    task: Task
    honest: tuple[CheckedEpisode, ...]
    adversaries: Mapping[str, CheckedEpisode]

    def honest_pay(self, scheme: Scheme) -> float:
        """Return the pay of the best-paid honest failure."""
        return max(scheme.total(episode.turns) for episode in self.honest)

    def pay(self, scheme: Scheme) -> dict[str, float]:
        """Return the pay of each adversary that did not solve the task, by name."""
        return {name: scheme.total(played.turns) for name, played in self.adversaries.items() if not is_solved(played)}


def is_solved(episode: CheckedEpisode) -> bool:
    """Return whether an episode solved its task."""
    return episode.outcome >= SOLVED_AT


def contest(
    env: Env,
    solved: CheckedEpisode,
    others: Sequence[CheckedEpisode],
    more: Mapping[str, ScriptedPlayer] | None = None,
    recorded: Mapping[str, CheckedEpisode] | None = None,
) -> Contest | None:
    """Play a task with all adversaries and with honest failures; return `None` if no honest attempt fails.

    Args:
        env: The environment to play in.
        solved: The solution's episode.
        others: Other episodes of the environment. They show which tools end an episode, and their solved ones help to
            construct failing attempts.
        more: Additional adversaries specific to this environment, by name.
        known: Episodes of adversaries that have played this task before, by name.
    """
    honest = failing_attempts(env, solved, [other for other in others if is_solved(other)])
    if not honest:
        return None
    players = adversaries(env, solved.task, solved.actions[0], ending_tools(env, [solved, *others]))
    played = dict(recorded or {})
    for name, player in {**players, **(more or {})}.items():
        if name not in played:
            played[name] = play(env, solved.task, solved.seed, player)
    return Contest(solved.task, tuple(honest), played)
