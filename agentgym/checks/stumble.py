"""The stumbling player: a solution with an action omitted, repeated, done too early, or given a wrong argument.

It reaches states that neither the solution nor random actions reach: errors of tools called slightly wrong, and graders
that see most of the right work. Depends on no check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentgym.checks.honest import spoiled_action
from agentgym.checks.play import RecordedEpisode, canonical, play
from agentgym.engine.spaces import Action
from agentgym.env import Env

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


def stumbles_of(env: Env, solved: RecordedEpisode) -> list[Stumble]:
    """Return up to `PER_TASK` stumbles of a solution."""
    stumbles = list(_stumbles(env, solved.actions))
    step = max(1, -(-len(stumbles) // PER_TASK))
    return stumbles[::step]


def play_stumble(env: Env, solved: RecordedEpisode, stumble: Stumble) -> RecordedEpisode:
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
