"""Checks of determinism: the same seed and actions produce the same episode, whatever else happens."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from agentgym.check.catalog import check
from agentgym.check.isolation import OWN_RNG, ROOTS
from agentgym.check.outcomes import CheckFailed, CheckSkipped, Finding
from agentgym.check.play import CheckedEpisode, canonical, must_equal, play, replayed
from agentgym.check.subject import Subject
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env

_SEEDS = 16

_COMPARED_IF_SLOW = 4
"""Number of seeds that two instances are compared on if the environment is slow."""

_SIBLING_TURNS, _SIBLING_TURNS_IF_SLOW = 2, 6
"""Turns after which the sibling of an environment is reset again."""

_RESET_ADVICE = "Set all state of an episode in start(), not in __init__ or on the class."

SEEDED = (*ROOTS, "seed-honoured")
_REPEATED = (*SEEDED, "deterministic")
SAME_EPISODE = (*_REPEATED, "seed-isolated", "reset-clean")
"""Checks whose failure explains that two plays of an episode differ."""
ELSEWHERE = (*SAME_EPISODE, "deterministic-across-processes")
"""Checks whose failure explains that two plays in different processes differ."""


@check("seed-honoured", "the same seed gives the same episode, other seeds give others", causes=ROOTS)
def seed_honoured(subject: Subject) -> Finding:
    """`reset(seed=...)` determines the task, and those of subsequent resets without a seed."""
    compared = _COMPARED_IF_SLOW if subject.is_slow else _SEEDS
    with subject.env() as env, subject.env() as other:
        task_ids: list[str] = []
        for number in range(_SEEDS):
            seed = subject.seed + number
            first = env.reset(seed=seed)
            task_ids.append(first[1]["task"])
            if number < compared:
                _must_repeat(other, seed, [first, env.reset(), env.reset()])
            elif len({*task_ids}) > 1:
                break
        if len({*task_ids}) == 1 and env.tasks.size(env.split) != 1:
            raise CheckFailed(f"{_SEEDS} seeds all gave task {task_ids[0]!r}; the seed must choose. {OWN_RNG}")
    return f"{len({*task_ids})} tasks from {len(task_ids)} seeds"


def _must_repeat(env: Env, seed: int, openings: Sequence[tuple[Any, dict[str, Any]]]) -> None:
    """Require the same openings of another instance: one of the seed, and those of resets without one."""
    advice = f"{OWN_RNG} Nothing may depend on time, ids or what was played before."
    for number, opening in enumerate(openings, start=1):
        again = env.reset(seed=seed if number == 1 else None)
        where = f"seed {seed}, reset {number}, two instances"
        must_equal([canonical(opening)], [canonical(again)], where, advice)


@check("deterministic", "the same seed and actions give the same observations, rewards and infos", causes=SEEDED)
def deterministic(subject: Subject) -> Finding:
    """Recorded episodes replay identically in fresh environments."""
    advice = "Leave timers, ids, threads and unordered sets out of what you return"
    episodes = subject.probed
    for episode, (first, second) in zip(episodes, subject.replays(), strict=True):
        try:
            must_equal(first.trace(), second.trace(), f"task {episode.task.id!r} again", advice)
        except CheckFailed as failure:
            raise CheckFailed(f"{failure}{_chance(subject)}") from None
    return f"{len(episodes)} episodes, {sum(len(episode.results) for episode in episodes)} turns"


def _chance(subject: Subject) -> str:
    """Name the lines that draw from the system's randomness or read a timer, if any were found."""
    with suppress(CheckFailed, CheckSkipped):
        lines = subject.surroundings.chance
        return f": {', '.join(lines[:3])}" if lines else ""
    return ""


@check("seed-isolated", "an episode is the same while a sibling is reset and stepped in between", causes=_REPEATED)
def seed_isolated(subject: Subject) -> Finding:
    """Two environments in one process share no randomness and no state."""
    advice = f"{OWN_RNG} Keep state on the instance, not on the class or module."
    others = subject.episodes("solution")
    turns = _SIBLING_TURNS_IF_SLOW if subject.is_slow else _SIBLING_TURNS
    with subject.env() as env, subject.env() as sibling:
        for number, episode in enumerate(subject.episodes("random")[:6]):
            other = others[(number + 1) % len(others)]
            trace = play(env, episode.task, episode.seed, partial(_disturbed, episode, sibling, other, turns)).trace()
            must_equal(episode.trace(), trace, f"task {episode.task.id!r} next to a sibling", advice)
    return None


def _disturbed(episode: CheckedEpisode, sibling: Env, other: CheckedEpisode, turns: int, *_: Any) -> Iterator[Action]:
    """Yield the actions of `episode`, stepping `sibling` before each, and resetting it every few `turns`."""
    for turn, action in enumerate(episode.actions):
        if turn % turns == 0 or sibling.reason is not None:
            sibling.reset(seed=other.seed + turn, options={"task": other.task})
        sibling.step(other.actions[0])
        yield action


@check("reset-clean", "a reset in the middle of an episode leaves no trace of it", causes=_REPEATED)
def reset_clean(subject: Subject) -> Finding:
    """After half of another episode, every episode is the same as in a fresh environment."""
    episodes = [subject.episodes("solution")[index] for index in subject.spread()]
    with subject.env() as env:
        for number, episode in enumerate(episodes):
            other = episodes[(number + 1) % len(episodes)]
            env.reset(seed=other.seed, options={"task": other.task})
            for action in other.actions[: max(1, len(other.actions) // 2)]:
                env.step(action)
            trace = replayed(env, episode).trace()
            must_equal(episode.trace(), trace, f"task {episode.task.id!r} after another episode", _RESET_ADVICE)
    return None


@check("global-rng-unused", "an episode is the same whatever the state of random and numpy.random", causes=SAME_EPISODE)
def global_rng_unused(subject: Subject) -> Finding:
    """Episodes stay the same when the global generators are seeded differently."""
    for number, episode in enumerate(subject.episodes("random")[:6]):
        states = random.getstate(), np.random.get_state()
        random.seed(number)
        np.random.seed(number)
        try:
            with subject.env() as env:
                trace = replayed(env, episode).trace()
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
        where = f"task {episode.task.id!r} after random.seed({number})"
        must_equal(episode.trace(), trace, where, f"It uses a global generator. {OWN_RNG}")
    return None


@check(
    "deterministic-across-processes",
    "a fresh process with another PYTHONHASHSEED plays the same episodes",
    causes=SAME_EPISODE,
    jobs=("traces",),
)
def deterministic_across_processes(subject: Subject) -> Finding:
    """Recorded episodes replay identically in two other processes."""
    advice = "Iterate over sorted(...) instead of a set, and never use hash() of text."
    for traces in subject.probes.values("traces"):
        for episode, trace in zip(subject.probed, traces, strict=True):
            must_equal(episode.trace(), trace, f"task {episode.task.id!r} in a fresh process", advice)
    return f"{len(subject.probed)} episodes in 2 processes"


@check("group-identity", "all members of a group start from the same state, byte for byte", causes=SAME_EPISODE)
def group_identity(subject: Subject) -> Finding:
    """The same task and seed give the same opening in fresh and used environments, by task and by id."""
    with subject.env() as used:
        for task in subject.tasks:
            openings = []
            for options in ({"task": task}, {"task": task.id}):
                with subject.env() as fresh:
                    openings.append(canonical(fresh.reset(seed=subject.seed, options=options)))
                openings.append(canonical(used.reset(seed=subject.seed, options=options)))
            for opening in openings[1:]:
                must_equal(openings[:1], [opening], f"task {task.id!r}, seed {subject.seed}, again", OWN_RNG)
    return f"{len(subject.tasks)} tasks"


CHECKS = (
    seed_honoured,
    deterministic,
    seed_isolated,
    reset_clean,
    deterministic_across_processes,
    global_rng_unused,
    group_identity,
)
