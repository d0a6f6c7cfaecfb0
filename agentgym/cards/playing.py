"""Plays a few tasks of an environment for its card: the solution, and players that do no useful work."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from agentgym.checks.play import (
    Broken,
    Episode,
    helpless_player,
    idle_player,
    play,
    random_player,
    stubborn_player,
)
from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.rewards import SOLVED_AT, Scheme
from agentgym.script import ScriptedPlayer, solution_player
from agentgym.task import TEST, Task, default_split, iterate

SOLUTION = "its solution"
PLAYERS: Mapping[str, ScriptedPlayer] = {
    SOLUTION: solution_player,
    "silence": idle_player,
    "“I do not know.”": helpless_player,
    "random calls": random_player,
    "its solution's first call, repeated": stubborn_player,
}
"""Who plays, by the name in the table."""
_TRIED = 100
"""Tasks to try, at most, until enough with a solution are found."""


@dataclass(frozen=True)
class Score:
    """What a player reached."""

    episodes: Sequence[Episode]

    @property
    def solved(self) -> str:
        """How many episodes solved their task: `3 of 10`."""
        return f"{sum(episode.outcome >= SOLVED_AT for episode in self.episodes)} of {len(self.episodes)}"

    @property
    def unsolved(self) -> str:
        """Why the other episodes ended: `1 ended as max_turns`."""
        reasons = Counter(str(episode.reason) for episode in self.episodes if episode.outcome < SOLVED_AT)
        return ", ".join(f"{count} ended as {reason}" for reason, count in reasons.items())

    @property
    def turns(self) -> float:
        """Mean number of turns."""
        return statistics.fmean(len(episode.turns) for episode in self.episodes)

    def pay(self, scheme: Scheme) -> float:
        """Return the mean reward under a scheme."""
        return statistics.fmean(sum(scheme.turn_rewards(episode.turns)) for episode in self.episodes)


def test_tasks(env: Env, limit: int) -> list[Task]:
    """Return the first tasks of the split `test`, or of the one that stands in for it."""
    split = default_split(env.tasks, TEST)
    return list(iterate(env.tasks, split, limit))


def solved_episodes(env: Env, count: int) -> list[Episode]:
    """Return episodes of the solution on the first test tasks that have one."""
    return list(islice(_solved(env), count))


def _solved(env: Env) -> Iterator[Episode]:
    for task in test_tasks(env, _TRIED):
        try:
            yield play(env, task, 0, solution_player)
        except Broken as broken:
            if not isinstance(broken.__cause__, UsageError):
                raise


def scores(env: Env, solved: Sequence[Episode]) -> dict[str, Score]:
    """Return what each player reaches on the tasks of these episodes, which are the solution's."""
    tasks = [episode.task for episode in solved]
    others = {name: player for name, player in PLAYERS.items() if name != SOLUTION}
    found = {name: Score([play(env, task, 0, player) for task in tasks]) for name, player in others.items()}
    return {SOLUTION: Score(solved), **found}
