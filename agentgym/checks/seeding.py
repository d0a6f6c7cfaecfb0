"""Checks of determinism: the same seed and actions give the same episode, whatever else happens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from agentgym.checks.catalog import CheckFailed, Finding, check
from agentgym.checks.play import Episode, canonical, must_equal, play, replayed
from agentgym.checks.subject import Subject
from agentgym.env import Env
from agentgym.spaces import Action

_OWN_RNG = "Draw from self.np_random, which reset(seed=...) seeds."
_SEEDS = 16


@check("seed-honoured", "the same seed gives the same episode, other seeds give others")
def seed_honoured(subject: Subject) -> Finding:
    """`reset(seed=...)` decides the task, and those of the resets without a seed that follow."""
    with subject.env() as env, subject.env() as other:
        for seed in range(subject.seed, subject.seed + _SEEDS):
            for again, given in enumerate((seed, None, None)):
                first, second = canonical(env.reset(seed=given)), canonical(other.reset(seed=given))
                advice = f"{_OWN_RNG} Nothing may depend on time, ids or what was played before."
                must_equal([first], [second], f"seed {seed}, reset {again + 1}, two instances", advice)
        drawn = set()
        for seed in range(subject.seed, subject.seed + _SEEDS):
            _, info = env.reset(seed=seed)
            drawn.add(info["task"])
        if len(drawn) == 1 and env.tasks.size(env.split) != 1:
            raise CheckFailed(f"{_SEEDS} seeds all gave task {drawn.pop()!r}; the seed must choose. {_OWN_RNG}")
    return f"{len(drawn)} tasks from {_SEEDS} seeds"


@check("seed-isolated", "an episode is the same while a sibling is reset and stepped in between")
def seed_isolated(subject: Subject) -> Finding:
    """Two environments in one process share no randomness and no state."""
    advice = f"{_OWN_RNG} Keep state on the instance, not on the class or module."
    others = subject.episodes("solution")
    with subject.env() as env, subject.env() as sibling:
        for number, episode in enumerate(subject.episodes("random")[:6]):
            other = others[(number + 1) % len(others)]
            trace = play(env, episode.task, episode.seed, partial(_disturbed, episode, sibling, other)).trace()
            must_equal(episode.trace(), trace, f"task {episode.task.id!r} next to a sibling", advice)
    return None


def _disturbed(episode: Episode, sibling: Env, other: Episode, *_: Any) -> Iterator[Action]:
    """Yield the actions of `episode`, doing something in `sibling` before each."""
    for turn, action in enumerate(episode.actions):
        if turn % 2 == 0 or sibling.reason is not None:
            sibling.reset(seed=other.seed + turn, options={"task": other.task})
        sibling.step(other.actions[0])
        yield action


@check("global-rng-unused", "an episode is the same whatever the state of random and numpy.random")
def global_rng_unused(subject: Subject) -> Finding:
    """Seeding the global generators otherwise changes nothing."""
    for number, episode in enumerate(subject.episodes("random")[:6]):
        kept = random.getstate(), np.random.get_state()
        random.seed(number)
        np.random.seed(number)
        try:
            with subject.env() as env:
                trace = replayed(env, episode).trace()
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
        where = f"task {episode.task.id!r} after random.seed({number})"
        must_equal(episode.trace(), trace, where, f"It uses a global generator. {_OWN_RNG}")
    return None


@check("global-rng-untouched", "it leaves random and numpy.random as they were")
def global_rng_untouched(subject: Subject) -> Finding:
    """Making, resetting, stepping and closing do not draw from or seed the global generators."""
    episode = subject.episodes("random")[0]
    kept = random.getstate(), np.random.get_state()
    # A state that no environment would set by itself.
    random.seed("untouched")
    np.random.seed(4_242_424)
    before = random.getstate(), _numpy_state()
    try:
        with subject.env() as env:
            env.reset(seed=subject.seed)
            replayed(env, episode)
        after = random.getstate(), _numpy_state()
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
    for name, was, now in zip(("random", "numpy.random"), before, after, strict=True):
        if was != now:
            raise CheckFailed(f"it changed the state of the module {name!r}, which belongs to everyone. {_OWN_RNG}")
    return None


def _numpy_state() -> str:
    return canonical([part.tolist() if isinstance(part, np.ndarray) else part for part in np.random.get_state()])


@check("deterministic", "the same seed and actions give the same observations, rewards and infos")
def deterministic(subject: Subject) -> Finding:
    """Every recorded episode comes out the same in a fresh environment and in one that has played others."""
    episodes = [*subject.episodes("solution"), *subject.episodes("random")]
    advice = "Leave clocks, ids, unordered sets and the global generators out of what you return."
    with subject.env() as env:
        for episode in episodes:
            must_equal(episode.trace(), replayed(env, episode).trace(), f"task {episode.task.id!r} again", advice)
    return f"{len(episodes)} episodes, {sum(len(episode.results) for episode in episodes)} turns"


@check("deterministic-across-processes", "so does a fresh process with another PYTHONHASHSEED")
def deterministic_across_processes(subject: Subject) -> Finding:
    """Recorded episodes come out the same in two other processes."""
    advice = "Iterate over sorted(...) instead of a set, and never use hash() of text."
    for traces in subject.probes.values("traces"):
        for episode, trace in zip(subject.probed, traces, strict=True):
            must_equal(episode.trace(), trace, f"task {episode.task.id!r} in a fresh process", advice)
    return f"{len(subject.probed)} episodes in 2 processes"


@check("group-identity", "all members of a group start from the same state, byte for byte")
def group_identity(subject: Subject) -> Finding:
    """The same task and seed open alike in a fresh, a used and a sibling environment, by task and by id."""
    with subject.env() as used:
        for task in subject.tasks:
            openings = []
            for options in ({"task": task}, {"task": task.id}):
                with subject.env() as fresh:
                    openings.append(canonical(fresh.reset(seed=subject.seed, options=options)))
                openings.append(canonical(used.reset(seed=subject.seed, options=options)))
            for opening in openings[1:]:
                must_equal(openings[:1], [opening], f"task {task.id!r}, seed {subject.seed}, again", _OWN_RNG)
    return f"{len(subject.tasks)} tasks"


CHECKS = (
    seed_honoured,
    seed_isolated,
    global_rng_unused,
    global_rng_untouched,
    deterministic,
    deterministic_across_processes,
    group_identity,
)
