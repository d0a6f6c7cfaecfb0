"""Metrics of a step."""

from __future__ import annotations

import pytest

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Tokens, Trajectory, Turn
from agentgym.trainers.credit import Credit
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.logbook.metrics import batch_metrics, flat_groups


def episode(outcome: float, reason: Reason = Reason.ANSWERED, **counts: int) -> Trajectory:
    turns = [
        Turn("a", [], {"outcome": 0.0, "format": 1.0}, 0.0),
        Turn("b", [], {"outcome": outcome, "format": 0.0}, 0.0),
    ]
    if reason is Reason.MAX_TURNS:
        turns.append(Turn(None, [], {"outcome": 0.0, "format": 0.0}, 0.0))
    tokens = Tokens([1, 2], [3, 4, 5], [1, 0, 1], [0.0] * 3, [0] * 3)
    return Trajectory(
        "t", "env", "task", "hash", 0, "policy", [], turns=turns, reason=reason, counts=counts, tokens=tokens
    )


def metrics_of(trajectories: list[Trajectory]) -> dict[str, float]:
    return batch_metrics([EpisodeNumbers.of(trajectory) for trajectory in trajectories], Credit())


def test_each_metric_counts_what_it_is_named_for():
    """Uneven numbers, so that a share of one thing is not that of another."""
    batch = [
        episode(1.0, Reason.CANCELLED, calls=9, tool_errors=9, format_errors=9),
        episode(1.0, calls=2, tool_errors=1),
        episode(0.0, Reason.MAX_TURNS, calls=5, format_errors=1),
        episode(0.5),
    ]
    batch[3].turns = batch[3].turns[1:]
    batch[2].seed = batch[3].seed = 1
    metrics = metrics_of(batch)
    assert metrics["failed"] == 1 / 4
    assert metrics["reward"] == 1.5 / 3
    assert metrics["success"] == metrics["truncated"] == pytest.approx(1 / 3)
    assert metrics["turns"] == pytest.approx((2 + 2 + 1) / 3)
    assert metrics["tool_errors"] == 1 / 7
    assert metrics["format_errors"] == 1 / 5
    assert metrics["flat_groups"] == 1 / 2
    assert metrics["channel/format"] == pytest.approx(2 / 3)


def test_episodes_in_which_nothing_was_called_or_said_have_no_errors():
    silent = episode(0.0)
    silent.turns = []
    metrics = metrics_of([silent])
    assert metrics["tool_errors"] == metrics["format_errors"] == metrics["turns"] == metrics["failed"] == 0
    assert not [name for name in metrics if name.startswith("channel/")]


def test_a_channel_that_is_not_measured_in_every_turn_counts_there_as_nothing():
    batch = [episode(1.0), episode(1.0)]
    del batch[1].turns[0].rewards["format"]
    assert metrics_of(batch)["channel/format"] == 0.5


def test_groups_are_flat_when_all_rewards_that_count_are_equal():
    assert flat_groups([1, 1, 0, 1], [0, 0, 1, 1]) == 0.5
    assert flat_groups([1, None, None, None, 0.5, 0.25], [0, 0, 1, 1, 2, 2]) == pytest.approx(2 / 3)


def test_a_batch_of_failures_has_nothing_else_to_tell():
    assert metrics_of([episode(1.0, Reason.CANCELLED)]) == {"failed": 1.0}
