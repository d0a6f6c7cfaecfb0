"""Checks of speed. None of them fails; a slow reset or tool gives a warning."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from agentgym.check.adversaries import action_text, calls_in
from agentgym.check.catalog import check
from agentgym.check.outcomes import CheckWarned, Finding
from agentgym.check.play import CheckedEpisode, play
from agentgym.check.subject import Subject
from agentgym.core.env import Env

SLOW_S = 0.5
"""A turn that takes longer every time it is tried holds up training."""

_TURNS = 3
"""Maximum number of slow turns of each tool to retry, since each retry takes long."""

_TRIES = 3
"""Retries of a slow turn: on a busy machine any turn may take long once."""


@check("quick", "no tool call and no reset is slow")
def quick(subject: Subject) -> Finding:
    """Replay slow turns, and warn about those that are slow every time, with the shortest time measured."""
    episodes = subject.all_episodes()
    tries: Counter[str] = Counter()
    slow: dict[str, str] = {}
    with subject.env() as env:
        turns = [turn for episode in episodes for turn in _slow_turns(env, episode)]
        for turn in sorted(turns, key=lambda turn: turn.seconds, reverse=True):
            tries[turn.name] += 1
            if turn.name not in slow and tries[turn.name] <= _TURNS and (slowness := _still_slow(env, turn)):
                slow[turn.name] = slowness
    if slow:
        raise CheckWarned(f"{'; '.join(slow.values())}: episodes wait for it; make it quicker, or `async` if it waits")
    slowest = max(seconds for episode in episodes for seconds in (episode.reset_s, *episode.step_s))
    return f"the slowest turn took {slowest * 1e3:.1f} ms"


class _SlowTurn(NamedTuple):
    name: str
    """The slow operation: the reset, a tool, or the answer to text."""
    seconds: float
    episode: CheckedEpisode
    turn: int
    """Number of the turn; 0 for the reset."""


def _slow_turns(env: Env, episode: CheckedEpisode) -> Iterator[_SlowTurn]:
    if episode.reset_s > SLOW_S:
        yield _SlowTurn("reset", episode.reset_s, episode, 0)
    for turn, seconds in enumerate(episode.step_s, start=1):
        if seconds > SLOW_S:
            names = ", ".join(call.name for call in calls_in(env, episode.actions[turn - 1]))
            yield _SlowTurn(f"the tool {names!r}" if names else "the answer to text", seconds, episode, turn)


def _still_slow(env: Env, slow: _SlowTurn) -> str:
    """Describe a turn that is slow every time; return an empty text if it is not."""
    seconds = _shortest(env, slow.episode, slow.turn)
    if seconds <= SLOW_S:
        return ""
    action = f" ({action_text(env, slow.episode.actions[slow.turn - 1])})" if slow.turn else ""
    return f"{slow.name} takes {seconds:.1f} s, in task {slow.episode.task.id!r}{action}"


def _shortest(env: Env, episode: CheckedEpisode, turn: int) -> float:
    """Replay an episode up to a turn, and return the shortest time measured for that turn."""
    seconds = episode.step_s[turn - 1] if turn else episode.reset_s
    for _ in range(_TRIES):
        again = play(env, episode.task, episode.seed, lambda *_: iter(episode.actions[:turn]))
        if turn > len(again.step_s):
            return 0.0
        seconds = min(seconds, again.step_s[turn - 1] if turn else again.reset_s)
        if seconds <= SLOW_S:
            break
    return seconds


@check("latency", "how long it takes (reported, not judged)")
def latency(subject: Subject) -> Finding:
    """Report the median and 99th percentile of resets and steps."""
    episodes = [*subject.episodes("solution"), *subject.episodes("random")]
    resets = [episode.reset_s for episode in episodes]
    steps = [seconds for episode in episodes for seconds in episode.step_s]
    return f"reset {_times(resets)}; step {_times(steps)}"


def _times(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"median {statistics.median(ordered) * 1e3:.2f} ms, p99 {last * 1e3:.2f} ms"


CHECKS = (quick, latency)
