"""Checks that useful work pays: adversaries that do no work earn no more than an honest attempt that fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from agentgym.check.adversaries import adversaries, ending_tools
from agentgym.check.catalog import check
from agentgym.check.grading import RANDOM_LIMIT
from agentgym.check.honest import Contest, is_solved
from agentgym.check.outcomes import ENOUGH, CheckFailed, CheckSkipped, CheckWarned, Finding, is_no_luck
from agentgym.check.play import CheckedEpisode, play
from agentgym.check.subject import Subject
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.rewards import OUTCOME, SOLVED_AT, Channel, Scheme

_ROUNDING = 1e-9

_FEWEST_TASKS = 4
"""Minimum sample: with fewer tasks, junk may succeed by coincidence, for example where the right answer is 0."""


def paid_schemes(env: Env) -> dict[str, Scheme]:
    """Return the schemes that must keep the guarantee: the one in use and the named ones, except the controls."""
    named = {name: scheme for name, scheme in env.schemes.items() if not scheme.allow_unsound}
    covers_current = env.scheme.allow_unsound or env.scheme in named.values()
    return named if covers_current else {"in use": env.scheme, **named}


@check("useful-work-pays", "junk, stalling and doing nothing are never paid more than an honest attempt that fails")
def useful_work_pays(subject: Subject) -> Finding:
    """In every scheme that is not a control, no adversary earns more than an honest failure at the same task.

    If each step has a cost, an adversary that gives up early saves the cost of the remaining steps. If it gains nothing
    else, this is only a warning.
    """
    contests = _contests(subject)
    with subject.env() as env:
        schemes, channels = paid_schemes(env), env.channels
    saved: list[str] = []
    for contest in contests:
        for scheme_name, scheme in schemes.items():
            for name in _overpaid(contest, scheme):
                paid, honest = contest.pay(scheme)[name], contest.honest_pay(scheme)
                what = (
                    f"scheme {scheme_name!r}, task {contest.task.id!r}: the adversary {name!r} is paid {paid:g}, "
                    f"an honest attempt that fails {honest:g}"
                )
                if not _only_saves(contest, name, _without_step_costs(scheme, channels)):
                    raise CheckFailed(f"{what}; {_how_to_pay(paid)}")
                saved.append(what)
    if saved:
        raise CheckWarned(f"{saved[0]}, as each step costs something: {_GIVING_UP}")
    honest_mean = fmean(contest.honest_pay(scheme) for contest in contests for scheme in schemes.values())
    best_mean = fmean(
        max(contest.pay(scheme).values(), default=0.0) for contest in contests for scheme in schemes.values()
    )
    return (
        f"{len(contests)} tasks, {len(schemes)} schemes: honest failures earn {honest_mean:.2f} on average, the best "
        f"adversary {best_mean:.2f}"
    )


_GIVING_UP = (
    "if no attempt solves the task, the first to give up is paid best; charge only attempts that solve it, with "
    f"Gate(on={OUTCOME!r}, at_least={SOLVED_AT:g}, opens=(...)), or accept that (docs/check.md)"
)


def _overpaid(contest: Contest, scheme: Scheme) -> list[str]:
    """Return the names of the adversaries that are paid more than the best honest failure."""
    limit = contest.honest_pay(scheme) + _ROUNDING
    return [name for name, paid in contest.pay(scheme).items() if paid > limit]


def _only_saves(contest: Contest, name: str, free: Scheme) -> bool:
    """Return whether an adversary ended its episode early, and earns no more than an honest failure if steps are free.

    Args:
        one: The contest.
        name: The adversary.
        free: The scheme without its costs of steps.
    """
    stalls = contest.adversaries[name].reason is Reason.MAX_TURNS
    return not stalls and name not in _overpaid(contest, free)


def _without_step_costs(scheme: Scheme, channels: Mapping[str, Channel]) -> Scheme:
    """Return the scheme without costs that add up over turns. Averaged costs stay: ending early does not save them."""
    for name, weight in scheme.weights.items():
        if channels[name].per_turn and name not in scheme.averaged and not channels[name].can_gain(weight):
            scheme = scheme.without(name)
    return scheme


def _how_to_pay(paid_to_junk: float) -> str:
    """Return what to do about junk that is paid more than honest work."""
    if paid_to_junk <= 0:
        return "its costs make honest work worse than none: put them behind a gate on the outcome, or on real work"
    return "declare what any legal action earns with Channel(cheap=True) and put it behind a gate on real work"


@check("junk-scores-low", "junk submitted at once rarely solves a task", causes=("ending-alone-fails",))
def junk_scores_low(subject: Subject) -> Finding:
    """No kind of junk solves more than half of the tasks, beyond what luck explains."""
    contests = _contests(subject)
    if len(contests) < _FEWEST_TASKS:
        raise CheckSkipped(f"{len(contests)} tasks could be played in time, too few to rule out luck")
    solved: dict[str, list[bool]] = {}
    for name, episode in _junk_episodes(contests):
        solved.setdefault(name, []).append(is_solved(episode))
    for name, results in solved.items():
        if sum(results) > RANDOM_LIMIT * len(results):
            results = _tried_on_more_tasks(subject, name)
        if sum(results) > RANDOM_LIMIT * len(results) and is_no_luck(sum(results), len(results), RANDOM_LIMIT):
            raise CheckFailed(
                f"{name} solved {sum(results)} of {len(results)} tasks; pay the outcome only for what the task asked"
            )
    return f"{len(solved)} kinds of junk"


def _tried_on_more_tasks(subject: Subject, name: str) -> list[bool]:
    """Play an adversary on enough tasks to rule out luck; return for each whether it was solved."""
    solutions = subject.more_episodes("solution", ENOUGH)
    with subject.env() as env:
        endings = ending_tools(env, solutions)
        played = (
            play(env, solved.task, solved.seed, adversaries(env, solved.task, solved.actions[0], endings)[name])
            for solved in solutions
        )
        return [is_solved(episode) for episode in played]


def _contests(subject: Subject) -> list[Contest]:
    if not subject.contests:
        raise CheckSkipped("no solution could be spoiled so that it fails; write failing(), which does honest work")
    return subject.contests


def _junk_episodes(contests: Sequence[Contest]) -> Iterator[tuple[str, CheckedEpisode]]:
    for contest in contests:
        yield from ((name, played) for name, played in contest.adversaries.items() if name.startswith("junk at once"))


CHECKS = (useful_work_pays, junk_scores_low)
