"""Checks that guessing pays little: one action for all tasks, or one value after another in an episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import median_low
from typing import Any

from agentgym.check.adversaries import calls_in
from agentgym.check.catalog import check
from agentgym.check.constants import best_constant, listed_values, most_common
from agentgym.check.grading import RANDOM_LIMIT
from agentgym.check.honest import is_solved
from agentgym.check.outcomes import CheckFailed, CheckSkipped, CheckWarned, Finding, Patience, is_no_luck
from agentgym.check.play import Broken, CheckedEpisode, assistant_call, play, then_silence
from agentgym.check.subject import Subject
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall

CONSTANT_SECONDS = 1.0
"""Time budget in seconds for looking for the best constant."""

CONSTANT_WARNING, CONSTANT_LIMIT = 0.2, 0.5
"""Smallest shares of tasks solved by one action that are a warning and a failure."""

_LUCK = 0.05
"""Share of tasks that one action or a few guesses may solve by luck."""

_ENUMERATED_TASKS = 12
_ENUMERATION_SECONDS = 1.5

_MOST_VALUES = 64
"""Number of values to try in an episode, or its number of turns if that is smaller."""

_MOST_ARGUMENTS = 3
"""Number of arguments of a tool that are varied, one at a time."""

_FEWEST_ANSWERS = 4
"""Number of other tasks whose right answers are worth trying."""


@check(
    "constant-scores-low",
    "no single action, the same in every task, solves many tasks",
    causes=("ending-alone-fails",),
)
def constant_scores_low(subject: Subject) -> Finding:
    """The best constant (`agentgym.check.constants`) solves less than half of the tasks; from a fifth on, warn."""
    with subject.env() as env:
        best = best_constant(env, subject.solutions, CONSTANT_SECONDS)
    if best is None:
        raise CheckSkipped("there was nothing to try, or no time")
    says = f"{best} on its own: a policy that learns nothing else scores as much; vary the right answers of the tasks"
    if best.share >= CONSTANT_LIMIT and is_no_luck(best.solved, best.tasks, CONSTANT_WARNING):
        raise CheckFailed(says)
    if best.share >= CONSTANT_WARNING and is_no_luck(best.solved, best.tasks, _LUCK):
        raise CheckWarned(says)
    return f"baseline: {best}"


@check(
    "enumeration-fails",
    "trying one value after another in an episode rarely solves a task",
    causes=("unfinished-fails",),
)
def enumeration_fails(subject: Subject) -> Finding:
    """Neither numbers in order, nor all choices, nor the right answers of other tasks solve most tasks.

    They are tried where solutions end: a wrong answer must end the episode, or there must be few tries.
    """
    solutions = subject.solutions
    patience = Patience(_ENUMERATION_SECONDS)
    solved: dict[str, list[CheckedEpisode]] = {}
    played = 0
    with subject.env() as env:
        for episode in solutions[:_ENUMERATED_TASKS]:
            env.reset(seed=episode.seed, options={"task": episode.task})  # the tools may depend on the episode
            others = [other for other in solutions if other.task.gold != episode.task.gold]
            for name, actions in _enumerations(env, episode, others):
                with suppress(Broken):  # other checks report it
                    attempt = play(env, episode.task, episode.seed, then_silence(actions))
                    solved.setdefault(name, []).extend([attempt] if is_solved(attempt) else [])
            played += 1
            if patience.is_over:
                break
    if not solved:
        raise CheckSkipped("no solution ends with a value that could be enumerated")
    for name, episodes in solved.items():
        if len(episodes) > RANDOM_LIMIT * played and is_no_luck(len(episodes), played, RANDOM_LIMIT / 2):
            raise CheckFailed(
                f"{name}, one after another, solved {len(episodes)} of {played} tasks, e.g. "
                f"{episodes[0].task.id!r}; end the episode at a wrong answer, or allow fewer tries"
            )
    most = max(map(len, solved.values()))
    return f"{len(solved)} enumerations, the best solved {most} of {played} tasks"


def _enumerations(
    env: Env, episode: CheckedEpisode, others: Sequence[CheckedEpisode]
) -> Iterator[tuple[str, list[Action]]]:
    """Yield sequences of actions that try one value after another, each with a name.

    Values are tried where solutions end, or before an end without arguments, which then follows.
    """
    turns = min(env.max_turns, _MOST_VALUES)
    ends = [_answer(env, other) for other in others if other.actions]
    calls = [call for end in ends for call in calls_in(env, end)]
    if not calls:
        texts = [end for end in ends if isinstance(end, str)]
        for name, values in _values({}, texts, turns):
            yield f"{name} as text", [str(value) for value in values]
        return
    closing = [episode.actions[-1]] if _has_bare_end(env, episode) else []
    for tool in (tool for tool in env.tools if tool.name in {call.name for call in calls}):
        own = [call.arguments for call in calls if call.name == tool.name]
        properties: Mapping[str, Any] = tool.parameters.get("properties", {})
        for argument in [name for name in properties if any(name in row for row in own)][:_MOST_ARGUMENTS]:
            right = [row[argument] for row in own if argument in row]
            [rest] = most_common([{key: part for key, part in row.items() if key != argument} for row in own], 1)
            for name, values in _values(properties[argument], right, turns - len(closing)):
                tries: list[Action] = [assistant_call(ToolCall(tool.name, {**rest, argument: v})) for v in values]
                yield f"{tool.name}({argument}=...) with {name}", [*tries, *closing]


def _has_bare_end(env: Env, episode: CheckedEpisode) -> bool:
    """Return whether an episode ends with a call without arguments, after other actions."""
    calls = calls_in(env, episode.actions[-1]) if len(episode.actions) > 1 else []
    return bool(calls) and not any(call.arguments for call in calls)


def _answer(env: Env, episode: CheckedEpisode) -> Action:
    """Return the last action of an episode that may hold an answer."""
    return episode.actions[-2 if _has_bare_end(env, episode) else -1]


def _values(schema: Mapping[str, Any], right: Sequence[Any], count: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield values to try, at most `count` at a time: choices, numbers, and the right ones of other tasks."""
    if choices := listed_values(schema):
        yield "its choices", choices[:count]
    numbers = [int(value) for value in right if _is_whole(value)]
    if numbers and len(numbers) == len(right):
        kind = str if all(isinstance(value, str) for value in right) else int
        yield "numbers from 0", [kind(number) for number in range(count)]
        middle = median_low(numbers) - count // 2
        yield "numbers around the usual ones", [kind(number) for number in range(middle, middle + count)]
    elif len(right) >= _FEWEST_ANSWERS:
        yield "the right ones of other tasks", most_common(right, count)


def _is_whole(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().removeprefix("-").isdecimal() and len(value) < 10
    return type(value) is int or (isinstance(value, float) and value.is_integer())


CHECKS = (constant_scores_low, enumeration_fails)
