"""Play one task with adversaries and with honest attempts that fail, to compare their pay. Depends on no check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym.checks.adversaries import adversaries, ending_tools
from agentgym.checks.honest import failing_attempts
from agentgym.checks.play import RecordedEpisode, play
from agentgym.env import Env
from agentgym.rewards import SOLVED_AT, Scheme
from agentgym.script import ScriptedPlayer
from agentgym.task import Task


@dataclass(frozen=True)
class Contest:
    """One task, played by adversaries and by honest attempts that fail."""

    task: Task
    honest: tuple[RecordedEpisode, ...]
    adversaries: Mapping[str, RecordedEpisode]

    def honest_pay(self, scheme: Scheme) -> float:
        """Return the pay of the best-paid honest failure."""
        return max(scheme.total(episode.turns) for episode in self.honest)

    def pay(self, scheme: Scheme) -> dict[str, float]:
        """Return the pay of each adversary that did not solve the task, by name."""
        return {name: scheme.total(played.turns) for name, played in self.adversaries.items() if not is_solved(played)}


def is_solved(episode: RecordedEpisode) -> bool:
    """Return whether an episode solved its task."""
    return episode.outcome >= SOLVED_AT


def contest(
    env: Env,
    solved: RecordedEpisode,
    others: Sequence[RecordedEpisode],
    more: Mapping[str, ScriptedPlayer] | None = None,
    recorded: Mapping[str, RecordedEpisode] | None = None,
) -> Contest | None:
    """Play a task with all adversaries and with honest failures; return `None` if no honest attempt fails.

    Args:
        env: The environment to play in.
        solved: The solution's episode.
        others: Other episodes of the environment. They show which tools end an episode, and their solved ones help to
            construct failing attempts.
        more: Additional adversaries specific to this environment, by name.
        known: Episodes of adversaries that have played this task before, by name.
    """
    honest = failing_attempts(env, solved, [other for other in others if is_solved(other)])
    if not honest:
        return None
    players = adversaries(env, solved.task, solved.actions[0], ending_tools(env, [solved, *others]))
    played = dict(recorded or {})
    for name, player in {**players, **(more or {})}.items():
        if name not in played:
            played[name] = play(env, solved.task, solved.seed, player)
    return Contest(solved.task, tuple(honest), played)
