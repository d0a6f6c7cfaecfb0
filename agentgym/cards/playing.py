"""Play a few tasks of an environment for its card: the solution, and players that do no useful work."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from agentgym.checks.play import (
    Broken,
    RecordedEpisode,
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
"""Players by their name in the table."""
_TRIED = 100
"""Maximum number of tasks to look at for ones with a solution."""


@dataclass(frozen=True)
class Score:
    """The results of one player."""

    episodes: Sequence[RecordedEpisode]

    @property
    def solved(self) -> str:
        """The number of solved tasks: `3 of 10`."""
        return f"{sum(episode.outcome >= SOLVED_AT for episode in self.episodes)} of {len(self.episodes)}"

    @property
    def unsolved(self) -> str:
        """How the other episodes ended: `1 ended as max_turns`."""
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
    """Return the first tasks of the split `test`, or of the nearest split to it."""
    split = default_split(env.tasks, TEST)
    return list(iterate(env.tasks, split, limit))


def solved_episodes(env: Env, count: int) -> list[RecordedEpisode]:
    """Return episodes of the solution on the first test tasks that have one."""
    return list(islice(_solved(env), count))


def _solved(env: Env) -> Iterator[RecordedEpisode]:
    for task in test_tasks(env, _TRIED):
        try:
            yield play(env, task, 0, solution_player)
        except Broken as broken:
            if not isinstance(broken.__cause__, UsageError):
                raise


def scores(env: Env, solved: Sequence[RecordedEpisode]) -> dict[str, Score]:
    """Return the score of each player on the tasks of `solved`, episodes of the solution."""
    tasks = [episode.task for episode in solved]
    others = {name: player for name, player in PLAYERS.items() if name != SOLUTION}
    other_scores = {name: Score([play(env, task, 0, player) for task in tasks]) for name, player in others.items()}
    return {SOLUTION: Score(solved), **other_scores}
