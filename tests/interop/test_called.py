"""An episode driven by calls pays, ends and fails as `Env` does, and nothing after its end counts."""

from __future__ import annotations

import asyncio

import pytest
from gymnasium.error import ResetNeeded

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.messages import text_of
from agentgym.interop.episodes import OVER, CalledEpisode
from tests.interop.probe_env import BROKEN_SEED, ProbeEnv
from tests.rows import each_row


@pytest.fixture
def episode() -> CalledEpisode:
    return CalledEpisode(ProbeEnv(dialect="native"))


def test_rewards_and_channels_are_kept_by_turn(episode: CalledEpisode):
    episode.begin(seed=0)
    episode.call("pay", {"amount": 0.25})
    episode.call("pay", {"amount": 0.5})
    episode.call("finish_as", {"what": "solved"})
    assert (episode.turn_rewards, episode.reward) == ([0.25, 0.5, 1.0], 1.75)
    assert episode.channels == {"outcome": 1.0, "paid": 0.75}
    assert [turn["paid"] for turn in episode.turn_channels] == [0.25, 0.5, 0.0]
    assert (episode.ending, episode.is_over, episode.is_truncated) == ("solved", True, False)


def test_after_the_end_nothing_counts(episode: CalledEpisode):
    episode.begin(seed=0)
    episode.call("finish_as", {"what": "solved"})
    assert text_of(episode.call("pay", {"amount": 1.0})[0]) == OVER
    assert (episode.reward, episode.end()) == (1.0, 1.0)


def test_an_episode_that_stops_at_a_limit_is_truncated(episode: CalledEpisode):
    episode.begin(seed=0)
    episode.call("pay", {"amount": 0.5})
    assert episode.end(Reason.TOKEN_BUDGET) == 0.5
    assert (episode.ending, episode.is_truncated) == ("token_budget", True)
    episode.begin(seed=0)
    assert (episode.is_truncated, episode.turn_rewards, episode.channels) == (False, [], {})


@each_row("is_async", [False, True])
def test_a_failed_episode_has_no_reward_and_can_be_begun_anew(episode: CalledEpisode, is_async: bool):
    def done(now, later):  # pyright: ignore[reportMissingParameterType]
        return asyncio.run(later()) if is_async else now()

    with pytest.raises(InfrastructureError):
        done(lambda: episode.begin(seed=BROKEN_SEED), lambda: episode.abegin(seed=BROKEN_SEED))
    done(lambda: episode.begin(seed=0), lambda: episode.abegin(seed=0))
    with pytest.raises(InfrastructureError):
        done(lambda: episode.call("collapse", {}), lambda: episode.acall("collapse", {}))
    assert (episode.has_failed, episode.is_over) == (True, True)
    for nothing in (lambda: episode.reward, lambda: episode.end(), lambda: episode.call("roll", {})):
        with pytest.raises(ResetNeeded):
            nothing()
    done(lambda: episode.begin(seed=0), lambda: episode.abegin(seed=0))
    assert done(lambda: episode.end(), lambda: episode.aend()) == 0.0
