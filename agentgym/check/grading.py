"""Checks of the grader: correct work scores, wrong work does not, and rewards match their declarations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentgym.base.errors import NoSolution
from agentgym.check.catalog import check
from agentgym.check.outcomes import ENOUGH, CheckFailed, Finding, is_no_luck
from agentgym.check.play import CheckedEpisode, replayed
from agentgym.check.seeding import SEEDED
from agentgym.check.subject import Subject
from agentgym.core.env import Env
from agentgym.core.rewards import OUTCOME, SOLVED_AT, lint

IDLE_LIMIT = 0.1
"""Maximum share of tasks that may be solved by doing nothing."""

RANDOM_LIMIT = 0.5
"""Maximum share of tasks that may be solved by random actions."""


@check("solution-solves", "the solution scores full marks on every split and difficulty")
def solution_solves(subject: Subject) -> Finding:
    """The reference policy ends every played task with a success, so the tasks are solvable."""
    episodes = subject.episodes("solution")
    _must_have_solution(subject)
    for episode in episodes:
        if not episode.ended or episode.outcome < SOLVED_AT or not episode.results[-1].info.get("is_success"):
            raise CheckFailed(
                f"task {episode.task.id!r}: outcome {episode.outcome:g} after {len(episode.results)} turns, ending "
                f"{episode.reason.value if episode.reason else 'none'!r}; fix solution() or the grader"
            )
    return f"{len(episodes)} of {len(episodes)} tasks, {_mean([len(e.results) for e in episodes]):.1f} turns on average"


def _must_have_solution(subject: Subject) -> None:
    """Raise `CheckFailed` if random actions had to take the place of the solution."""
    task = subject.tasks[0]
    with subject.env() as env:
        env.reset(seed=subject.seed, options={"task": task})
        try:
            next(iter(env.solution(task)), None)
        except NoSolution as error:
            raise CheckFailed(f"{error}, so nothing shows that the tasks can be solved") from None


@check("idle-scores-low", "doing nothing scores low")
def idle_scores_low(subject: Subject) -> Finding:
    """Neither silent nor helpless players solve tasks."""
    return "; ".join(_must_score_low(subject.episodes(player), player, IDLE_LIMIT) for player in ("idle", "helpless"))


@check("random-scores-low", "random actions score low", causes=("ending-alone-fails", "other-solution-fails"))
def random_scores_low(subject: Subject) -> Finding:
    """Random samples of the action space do not solve more than half of the tasks, beyond what luck explains."""
    episodes = subject.episodes("random")
    if len(_solved(episodes)) > RANDOM_LIMIT * len(episodes):
        episodes = subject.more_episodes("random", ENOUGH)
        if not is_no_luck(len(_solved(episodes)), len(episodes), RANDOM_LIMIT):
            return _score(episodes, "random")
    return _must_score_low(episodes, "random", RANDOM_LIMIT)


def _must_score_low(episodes: Sequence[CheckedEpisode], player: str, limit: float) -> str:
    solved = _solved(episodes)
    if len(solved) > limit * len(episodes):
        raise CheckFailed(
            f"the {player} player solved {len(solved)} of {len(episodes)} tasks, e.g. {solved[0].task.id!r}; "
            "pay the outcome only for what the task asked"
        )
    return _score(episodes, player)


def _score(episodes: Sequence[CheckedEpisode], player: str) -> str:
    mean = _mean([episode.reward for episode in episodes])
    return f"{player} solved {len(_solved(episodes))} of {len(episodes)}, mean reward {mean:.2f}"


def _solved(episodes: Sequence[CheckedEpisode]) -> list[CheckedEpisode]:
    return [episode for episode in episodes if episode.outcome >= SOLVED_AT]


@check("grader-stable", "the same episode is graded the same every time", causes=SEEDED)
def grader_stable(subject: Subject) -> Finding:
    """Reward channels, total reward and success stay the same when recorded actions are graded again."""
    helpless = [subject.episodes("helpless")[index] for index in subject.spread()]
    with subject.env() as first, subject.env() as second:
        again = [(replayed(first, episode), replayed(second, episode)) for episode in helpless]
    episodes = [*subject.probed, *helpless]
    for number, replays in enumerate(zip(*subject.replays(), *again, strict=True), start=2):
        for episode, replay in zip(episodes, replays, strict=True):
            if (expected := _grades(episode)) != (grades := _grades(replay)):
                raise CheckFailed(
                    f"task {episode.task.id!r}: graded {expected} the first time, {grades} the {number}. time; "
                    "a grader may depend on nothing but the task and the actions"
                )
    return f"{len(episodes)} episodes, three times each"


def _grades(episode: CheckedEpisode) -> tuple[list[dict[str, float]], float, bool | None]:
    return episode.turns, episode.reward, episode.results[-1].info.get("is_success") if episode.results else None


@check("reward-channels", "every turn has all declared channels, each in its range")
def reward_channels(subject: Subject) -> Finding:
    """`info["rewards"]` contains exactly the declared channels, with finite values in the declared ranges."""
    with subject.env() as env:
        for episode in subject.all_episodes():
            for turn, values in enumerate(episode.turns, start=1):
                if (problem := _channel_problem(env, values)) is not None:
                    raise CheckFailed(f"task {episode.task.id!r}, turn {turn}: {problem}")
            for name, channel in env.channels.items():
                total = sum(values[name] for values in episode.turns)
                if not channel.per_turn and not channel.low - 1e-9 <= total <= channel.high + 1e-9:
                    raise CheckFailed(
                        f"task {episode.task.id!r}: channel {name!r} adds up to {total:g} over the episode, declared "
                        f"is {channel.low:g} to {channel.high:g}; use Channel(per_turn=True), or set it once"
                    )
        return f"channels: {', '.join(env.channels)}"


def _channel_problem(env: Env, values: dict[str, float]) -> str | None:
    if set(values) != set(env.channels):
        return f"info['rewards'] has {sorted(values)}, declared are {sorted(env.channels)}"
    for name, value in values.items():
        channel = env.channels[name]
        if not isinstance(value, int | float) or not math.isfinite(value):
            return f"channel {name!r} is {value!r}, not a finite number"
        if not channel.low <= value <= channel.high:
            return f"channel {name!r} is {value:g}, declared {channel.low:g} to {channel.high:g}; correct one of them"
    return None


@check("rewards-add-up", "step rewards add up to the total of the scheme")
def rewards_add_up(subject: Subject) -> Finding:
    """The sum of an episode's rewards equals the scheme's total over its channels."""
    with subject.env() as env:
        for episode in subject.all_episodes():
            total = env.scheme.total(episode.turns)
            if not math.isclose(episode.reward, total, rel_tol=1e-6, abs_tol=1e-6):
                raise CheckFailed(
                    f"task {episode.task.id!r}: the steps paid {episode.reward:g}, the scheme says {total:g}; "
                    "set channels with self.reward(...) and let Env compute the reward"
                )
    return None


@check("scheme-sound", "no failed episode can earn as much as a solved one")
def scheme_sound(subject: Subject) -> Finding:
    """The lint finds no problem in any scheme, and no recorded failure earned as much as a recorded success."""
    with subject.env() as env:
        if problems := lint(env.scheme, env.channels, env.max_turns):
            raise CheckFailed("; ".join(problems))
        for name, scheme in env.schemes.items():
            if not scheme.allow_unsound and (problems := lint(scheme, env.channels, env.max_turns)):
                raise CheckFailed(f"the scheme {name!r}: {'; '.join(problems)}")
    episodes = subject.all_episodes()
    right = [episode for episode in episodes if episode.outcome >= SOLVED_AT]
    wrong = [episode for episode in episodes if episode.outcome < SOLVED_AT]
    if not right or not wrong:
        return None
    worst, best = min(right, key=lambda e: e.reward), max(wrong, key=lambda e: e.reward)
    if best.reward >= worst.reward:
        raise CheckFailed(
            f"a failed episode of {best.task.id!r} earned {best.reward:g}, a solved one of {worst.task.id!r} "
            f"{worst.reward:g}; put other channels behind Gate(on={OUTCOME!r}, ...)"
        )
    return f"solved earn from {worst.reward:.2f}, failed up to {best.reward:.2f}"


def _mean(values: list[float] | list[int]) -> float:
    return sum(values) / max(1, len(values))


CHECKS = (
    solution_solves,
    idle_scores_low,
    random_scores_low,
    grader_stable,
    reward_channels,
    rewards_add_up,
    scheme_sound,
)
