"""The parameters of credit assignment: weights, defaults, the smallest group."""

from __future__ import annotations

import math

import pytest

from agentgym.core.endings import Reason
from agentgym.core.rewards import Scheme
from agentgym.core.trajectory import Trajectory
from agentgym.trainers.credit import Credit, CreditMode, episode_reward, normalise, reward_to_go, shaping_rewards
from tests.rows import each_row
from tests.trainers.test_credit import trajectory

WITH_TOOL = Scheme({"outcome": 2.0, "tool": 0.5}, allow_unsound=True)


def solved_and_not(*others: float) -> list[Trajectory]:
    return [trajectory([{"outcome": outcome}]) for outcome in (1.0, *others)]


def test_bad_turns_count_for_less_by_their_weight_and_good_ones_in_full():
    batch = solved_and_not(0.0, 0.0, 0.0)
    rows = Credit(CreditMode.OUTCOME, negative_weight=0.3).advantages(batch, [0] * 4)
    assert [row[0] for row in rows] == pytest.approx([1.5, -0.15, -0.15, -0.15], abs=1e-3)


def test_two_attempts_are_a_group():
    assert normalise([1.0, 0.0], [7, 7], scale_by_std=False) == [0.5, -0.5]
    assert normalise([1.0, 0.0], [7, 7]) == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)], abs=1e-3)
    assert normalise([3.0, 1.0, math.nan], [7, 7, 7], scale_by_std=False) == [1.0, -1.0, 0.0]


def test_nearly_equal_values_are_not_blown_up():
    """The epsilon, 1e-4, is far above rounding errors and far below any reward."""
    assert normalise([1e-9, 0.0], [0, 0])[0] == pytest.approx(5e-10 / (1e-9 * math.sqrt(0.5) + 1e-4), rel=1e-6)


def test_rewards_at_the_end_reach_the_first_turn_in_full():
    rows = Credit(CreditMode.TURN, WITH_TOOL, scale_by_std=False, turn_weight=1.0).advantages(
        [trajectory([{"tool": 0.0}, {"tool": 1.0}]), trajectory([{"tool": 0.0}, {"tool": 0.0}])], [0, 0]
    )
    assert rows == [pytest.approx([0.25, 0.25]), pytest.approx([-0.25, -0.25])]
    assert reward_to_go([1.0, 2.0, 4.0], 1.0) == [7.0, 6.0, 4.0]


def test_the_turn_stream_weighs_half_unless_it_is_said():
    batch = [trajectory([{"tool": 1.0}]), trajectory([{"tool": 0.0}])]
    [[default], _] = Credit(CreditMode.TURN, WITH_TOOL).advantages(batch, [0, 0])
    [[full], _] = Credit(CreditMode.TURN, WITH_TOOL, turn_weight=1.0).advantages(batch, [0, 0])
    assert default == pytest.approx(full / 2)
    assert full > 0


def test_only_gated_credit_compares_by_the_scheme():
    earned = trajectory([{"outcome": 1.0, "tool": 1.0}])
    assert episode_reward(earned, CreditMode.GATED, WITH_TOOL) == 2.5
    for mode in (CreditMode.OUTCOME, CreditMode.TURN):
        assert episode_reward(earned, mode, WITH_TOOL) == 1.0


def test_shaping_is_everything_but_the_weighted_outcome():
    earned = trajectory([{"tool": 1.0}, {"outcome": 0.5, "tool": 0.5}])
    assert shaping_rewards(earned, WITH_TOOL) == pytest.approx([0.5, 0.25])
    assert shaping_rewards(earned, Scheme({"tool": 1.0})) == pytest.approx([1.0, 0.5])


@each_row("graded", [1, 2])
def test_all_that_is_graded_after_the_last_turn_belongs_to_it(graded: int):
    earned = trajectory([{"tool": 1.0}] * 4, Reason.TOKEN_BUDGET, graded=graded)
    assert shaping_rewards(earned, WITH_TOOL) == [0.5] * (3 - graded) + [0.5 * (1 + graded)]
