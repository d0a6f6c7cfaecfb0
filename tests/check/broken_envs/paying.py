"""Environments whose rewards are wrong, unsound, or too easy to earn."""

from __future__ import annotations

from typing import Any

from agentgym.core.engine.steps import StepResult
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from tests.check.sound_envs import SoundEnv


class PaysOutOfRange(SoundEnv):
    """Declares 0 to 1 and pays 5."""

    def see(self, box: str) -> str:
        content = super().see(box)
        self.reward("effort", 5.0)
        return content


class PaysAnEpisodeChannelTwice(SoundEnv):
    """Declares a channel per episode and pays it every turn."""

    channels = {OUTCOME: Channel("right"), "effort": Channel("looked")}


class PaysALittleBesidesTheScheme(SoundEnv):
    """Adds a small bonus of its own to every reward."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(reward=result.reward + 1e-3)


class UnsoundScheme(SoundEnv):
    """Pays more for effort than for success."""

    scheme = Scheme(weights={OUTCOME: 1.0, "effort": 0.9}, allow_unsound=True)


class UnsoundNamedScheme(SoundEnv):
    """Has a named scheme that averages effort, so that a failed episode earns more by ending sooner."""

    schemes = {"eager": Scheme(weights={OUTCOME: 1.0, "effort": 0.1}, averaged=frozenset({"effort"}))}


class PaysFailuresMore(SoundEnv):
    """Pays by its scheme, but exceeds the declared range of a channel."""

    channels = {OUTCOME: Channel("right"), "effort": Channel("looked")}
    scheme = Scheme({OUTCOME: 1.0, "effort": 0.4})


class PaysForHaste(SoundEnv):
    """Pays more for earlier answers, right or wrong."""

    channels = {**SoundEnv.channels, "haste": Channel("share of the turns that were not needed")}
    scheme = Scheme(weights={OUTCOME: 1.0, "haste": 0.2})

    def take(self, text: str) -> str:
        self.reward("haste", 1.0 - len(self.looked) / self.max_turns)
        return super().take(text)


class PaysEveryLook(SoundEnv):
    """Has a named scheme that pays for every look, even into the same box."""

    schemes = {"curious": Scheme(weights={OUTCOME: 1.0, "effort": 0.1})}


class HonestWorkCosts(SoundEnv):
    """Charges for every turn of work, and nothing for idling."""

    channels = {**SoundEnv.channels, "cost": Channel("cost of work", low=-1.0, high=0.0, per_turn=True)}
    scheme = Scheme(weights={"outcome": 1.0, "cost": 0.1}, averaged=frozenset({"cost"}))

    def see(self, box: str) -> str:
        self.reward("cost", -1.0)
        return super().see(box)
