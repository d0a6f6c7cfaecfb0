"""How stale the tokens of a batch are, and which of them carry no loss, by the length of their episodes."""

from __future__ import annotations

from agentgym.core.endings import Ending
from agentgym.core.trajectory import Tokens
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.staleness import loss_mask_of, staleness_metrics


def episode(turns: int, sampled_by: dict[int, int], ending: Ending = Ending.TERMINATED) -> EpisodeNumbers:
    return EpisodeNumbers("e", "task", 0, ending, [], range(turns), [], sampled_by=sampled_by)


def test_a_token_of_an_old_version_carries_no_loss():
    tokens = Tokens([1])
    for version in (3, 4, 5):
        tokens.append_sampled([7, 8], [-1.0, -1.0], version)
        tokens.append_observed([9])
    assert loss_mask_of(tokens, 0) == tokens.loss_mask
    assert loss_mask_of(tokens, 4) == [0, 0, 0, 1, 1, 0, 1, 1, 0]


def test_staleness_is_reported_by_the_length_of_episodes():
    """Long episodes are stale; a run of weights of one step has nothing to report."""
    batch = [
        episode(2, {9: 10}),
        episode(1, {8: 10}),
        episode(12, {3: 30, 6: 20, 9: 30}),
        episode(20, {0: 1000}, Ending.FAILED),
        episode(0, {}),
    ]
    assert staleness_metrics(batch, 9, 4) == {
        "staleness": (10 * 1 + 30 * 6 + 20 * 3) / 100,
        "staleness_max": 6.0,
        "stale_tokens": 30 / 100,
        "stale_tokens/1-2_turns": 0.0,
        "stale_tokens/9-16_turns": 30 / 80,
    }
    assert staleness_metrics([episode(2, {9: 10})], 9, 4) == {}
    assert staleness_metrics([], 9, 4) == {}
