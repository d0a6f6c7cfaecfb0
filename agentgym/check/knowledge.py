"""Checks that the right answer follows from what the policy sees in play, and from no label of the task."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from agentgym.check.adversaries import calls_in
from agentgym.check.catalog import check
from agentgym.check.constants import scalars
from agentgym.check.honest import is_solved
from agentgym.check.outcomes import CheckFailed, CheckSkipped, Finding, Patience
from agentgym.check.play import CheckedEpisode, canonical, is_over, play, short
from agentgym.check.seeding import SAME_EPISODE
from agentgym.check.subject import Subject
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import RESET_INFO
from agentgym.core.env import Env
from agentgym.core.messages import text_of

_OTHER_SEEDS = (1_001, 1_002, 1_003, 1_004)

_SECONDS = 0.8

_MOST_TWINS = 6
"""Number of pairs of tasks with the same opening that are compared."""

_FEWEST_ANSWERS = 3
"""A label tells the answer only if it tells this many different ones ..."""

_SHARE = 0.8
"""... and in this share of the tasks."""

_OF_CORE = RESET_INFO | {"rewards", "turn", "counts"}
"""Entries of `info` that every environment has, without the labels of the task."""


@check(
    "equal-pay",
    "equal observations and actions are paid alike, whatever the seed and task",
    causes=(*SAME_EPISODE, "solution-solves"),
)
def equal_pay(subject: Subject) -> Finding:
    """Solutions played with other seeds, and on tasks that open alike, are paid alike while nothing visible differs."""
    solutions = [episode for episode in subject.solutions if is_solved(episode)]
    patience = Patience(_SECONDS)
    compared = 0
    with subject.env() as env:
        for episode, other_task, seed in _pairs(subject, solutions):
            again = play(env, other_task.task, seed, lambda *_, actions=episode.actions: iter(actions))
            if (turn := _unequal_pay(episode, again)) is not None:
                where = f"seed {seed}" if other_task is episode else f"task {other_task.task.id!r}"
                paid, paid_again = episode.results[turn - 1].reward, again.results[turn - 1].reward
                raise CheckFailed(
                    f"task {episode.task.id!r}, turn {turn}: with seed {episode.seed} it was paid {paid:g}, with "
                    f"{where} {paid_again:g}, after the same observations and actions; show what decides, or leave "
                    "it out of the grade"
                )
            compared += 1
            if patience.is_over:
                break
    return f"compared {compared} pairs of episodes"


def _pairs(
    subject: Subject, solutions: Sequence[CheckedEpisode]
) -> Iterator[tuple[CheckedEpisode, CheckedEpisode, int]]:
    """Yield an episode, the episode whose task to play its actions on, and the seed."""
    twins: dict[str, list[CheckedEpisode]] = {}
    for episode in solutions:
        twins.setdefault(_seen([episode.opening]), []).append(episode)
    alike = [(group[0], other, other.seed) for group in twins.values() for other in group[1:]]
    spread = solutions[:: max(1, -(-len(solutions) // 6))]
    yield from ((episode, episode, episode.seed + more) for more in _OTHER_SEEDS for episode in spread)
    yield from alike[:_MOST_TWINS]


def _unequal_pay(episode: CheckedEpisode, again: CheckedEpisode) -> int | None:
    """Return the first turn that is paid differently although everything shown until then is the same, or `None`."""
    if _seen([episode.opening]) != _seen([again.opening]):
        return None
    for turn, (left, right) in enumerate(zip(episode.results, again.results, strict=False), start=1):
        if _seen([left.observation]) != _seen([right.observation]):
            return None
        if abs(left.reward - right.reward) > 1e-9:
            return turn
    return None


def _seen(observations: Sequence[Any]) -> str:
    """Return what a policy sees, without the ids of calls."""
    return canonical([[message.get("role"), text_of(message)] for messages in observations for message in messages])


@check(
    "labels-hide-gold",
    "no id, tag, difficulty or info tells the right answer",
    causes=("gold-hidden-at-start", "gold-hidden-in-play"),
)
def labels_hide_gold(subject: Subject) -> Finding:
    """No label of a task, and no value in `info` before the end, equals the answer of the solution in most tasks."""
    solutions = [episode for episode in subject.solutions if is_solved(episode) and episode.task.gold]
    matches: dict[str, list[str]] = {}
    with subject.env() as env:
        for episode in solutions:
            answers = sorted(_answers(env, episode))
            for name, reveals in _labels(episode):
                matches.setdefault(name, []).extend([answer for answer in answers if reveals(answer)][:1])
    if len(solutions) < _FEWEST_ANSWERS:
        raise CheckSkipped("too few tasks are solved by their solution")
    for name, revealed in matches.items():
        if len(revealed) >= _SHARE * len(solutions) and len(set(revealed)) >= _FEWEST_ANSWERS:
            raise CheckFailed(
                f"{name} tells the answer of {len(revealed)} of {len(solutions)} tasks, e.g. {short(revealed[0])}; "
                "policies and clients may see it: keep answers in Task.gold only"
            )
    return f"compared {len(matches)} labels in {len(solutions)} tasks"


def _answers(env: Env, episode: CheckedEpisode) -> set[str]:
    """Return the values in the last action of a solution, and the pieces of gold in them, as text."""
    last: Action = episode.actions[-1]
    calls = calls_in(env, last)
    answers = _texts(
        [call.arguments for call in calls] if calls else [text_of(last) if isinstance(last, dict) else last]
    )
    return answers | {gold for gold in _texts(episode.task.gold) if any(_holds(answer, gold) for answer in answers)}


def _texts(value: Any) -> set[str]:
    """Return the texts and numbers in plain data as text, as far as they are not empty or booleans."""
    return {text for _, item in scalars(value) if not isinstance(item, bool) and (text := _text(item))}


def _labels(episode: CheckedEpisode) -> Iterator[tuple[str, Callable[[str], bool]]]:
    """Yield the labels of an episode, each with a function that returns whether it tells an answer."""
    task = episode.task
    yield "the difficulty", _text(task.difficulty).__eq__
    for name, label in [("the id", task.id), *((f"tag {number}", tag) for number, tag in enumerate(task.tags, 1))]:
        yield name, partial(_holds, label.casefold())
    values: dict[str, set[str]] = {}
    for info in [episode.info, *(result.info for result in episode.results if not is_over(result))]:
        for name, value in scalars({name: value for name, value in info.items() if name not in _OF_CORE}, "info"):
            if not isinstance(value, bool):
                values.setdefault(name, set()).add(_text(value))
    yield from ((name, texts.__contains__) for name, texts in values.items())


def _holds(label: str, answer: str) -> bool:
    """Return whether a label contains an answer, not as part of a longer word or number."""
    return re.search(rf"(?<![^\W_]){re.escape(answer)}(?![^\W_])", label) is not None


def _text(value: str | int | float) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value).strip().casefold()


CHECKS = (equal_pay, labels_hide_gold)
