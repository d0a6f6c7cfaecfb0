"""Credit assignment against worked cases of published methods, and the properties that hold for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.endings import Reason
from agentgym.core.rewards import Gate, Scheme
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.trainers.credit import Credit, CreditMode, normalise, shaping_rewards
from agentgym.trainers.episode_numbers import EpisodeNumbers
from tests.rows import each_row

OUTCOME, GATED, TURN = CreditMode.OUTCOME, CreditMode.GATED, CreditMode.TURN


def trajectory(turns: Sequence[dict[str, float]], reason: Reason = Reason.ANSWERED, graded: int = 0) -> Any:
    """A trajectory that earned these channels; the last `graded` of its turns are not the model's."""
    played = [Turn("said", [], dict(channels), 0.0) for channels in turns]
    for turn in played[len(played) - graded :]:
        turn.action = None
    return Trajectory("t", "env", "task", "hash", 0, "policy", [], turns=played, reason=reason)


def scored(outcomes: Sequence[float], turns: int = 1) -> list[Trajectory]:
    return [trajectory([{"outcome": 0.0}] * (turns - 1) + [{"outcome": outcome}]) for outcome in outcomes]


def whole(credit: Credit, batch: Sequence[Trajectory], groups: Sequence[int] | None = None) -> list[float]:
    """The advantage of each trajectory's last turn."""
    return [row[-1] for row in credit.advantages(batch, groups or [0] * len(batch))]


def low_reward(at_least: float) -> Scheme:
    gate = Gate(on="outcome", at_least=at_least, opens=("low",))
    return Scheme({"outcome": 1.0, "low": 1.0}, gates=(gate,), allow_unsound=True)


def stalling() -> list[Trajectory]:
    """Worked case T10: solved, failed, empty and not submitted, in 2, 2, 5 and 10 turns that earn .3 each."""
    ends = zip([1.0, 0.0, -0.5, -1.0], [2, 2, 5, 10], strict=True)
    return [
        trajectory([{"outcome": 0.0, "low": 0.3}] * (turns - 1) + [{"outcome": outcome, "low": 0.3}])
        for outcome, turns in ends
    ]


# Worked cases.


def test_outcome_credit_is_grpo():
    assert whole(Credit(OUTCOME), scored([1, 0, 0, 0])) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-3)


def test_a_direct_sum_prefers_the_longest_episode_that_never_submits():
    scheme = Scheme({"outcome": 1.0, "low": 1.0}, allow_unsound=True)
    credit = Credit(GATED, scheme)
    assert credit.logged_rewards(stalling()) == pytest.approx([1.6, 0.6, 1.0, 2.0])
    assert whole(credit, stalling()) == pytest.approx([0.4824, -1.1255, -0.4824, 1.1255], abs=1e-3)


def test_a_gate_on_the_outcome_prefers_the_solved_episode():
    credit = Credit(GATED, low_reward(0.0))
    assert credit.logged_rewards(stalling()) == pytest.approx([1.6, 0.6, -0.5, -1.0])
    assert whole(credit, stalling()) == pytest.approx([1.2267, 0.3659, -0.5811, -1.0115], abs=1e-3)


def test_a_gate_that_never_opens_leaves_the_outcome_alone():
    shut = Credit(GATED, low_reward(math.inf)).advantages(stalling(), [0] * 4)
    assert shut == Credit(OUTCOME).advantages(stalling(), [0] * 4)


def test_an_outcome_that_is_not_paid_in_full_leaves_no_debt_in_the_shaping():
    earned = [{"low": 0.0, "outcome": 1.0}]
    shut = Scheme({"outcome": 1.0}, (Gate("low", 1.0, ("outcome",)),), allow_unsound=True)
    mean = Scheme({"outcome": 1.0}, averaged=frozenset({"outcome"}), allow_unsound=True)
    assert shaping_rewards(trajectory(earned), shut) == [0.0]
    assert shaping_rewards(trajectory([{}, *earned]), mean) == [0.0, 0.0]


def test_turn_credit_adds_two_normalised_streams():
    scheme = Scheme({"outcome": 1.0, "tool": 1.0}, allow_unsound=True)
    pairs = zip([1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], strict=True)
    batch = [trajectory([{"outcome": outcome, "tool": tool}]) for outcome, tool in pairs]
    combined = whole(Credit(TURN, scheme, turn_weight=1.0), batch)
    assert combined == pytest.approx([1.7318, 0, 0, -1.7318], abs=1e-3)
    alone = whole(Credit(TURN, scheme, turn_weight=0.0), batch)
    assert alone == pytest.approx([0.8659, -0.8659, 0.8659, -0.8659], abs=1e-3)


def test_turn_credit_compares_the_reward_still_to_come_over_all_turns_of_a_group():
    scheme = Scheme({"outcome": 1.0, "tool": 1.0}, allow_unsound=True)
    batch = [
        trajectory([{"tool": 0.2}, {"tool": 1.0, "outcome": 1.0}]),
        trajectory([{"tool": 0.2}, {"tool": 0.0, "outcome": 1.0}]),
    ]
    rows = Credit(TURN, scheme, scale_by_std=False, turn_weight=1.0, gamma=0.5).advantages(batch, [0, 0])
    mean = (0.7 + 1.0 + 0.2 + 0.0) / 4
    assert rows == [pytest.approx([0.7 - mean, 1.0 - mean]), pytest.approx([0.2 - mean, 0.0 - mean])]


# Properties.

VALUES = st.lists(st.floats(-1, 1, allow_nan=False, width=32), min_size=1, max_size=12)


def naturally_gated(outcomes: Sequence[float], shares: Sequence[float]) -> list[Trajectory]:
    return [trajectory([{"outcome": o, "low": s}]) for o, s in zip(outcomes, shares, strict=True)]


@given(VALUES, st.booleans())
def test_advantages_add_up_to_zero_in_every_group(values: list[float], by_std: bool):
    groups = [i % 3 for i in range(len(values))]
    result = normalise(values, groups, scale_by_std=by_std)
    for group in set(groups):
        assert sum(a for a, g in zip(result, groups, strict=True) if g == group) == pytest.approx(0, abs=1e-6)


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_trajectories_does_not_matter(values: list[float], random: Any):
    groups = [i % 2 for i in range(len(values))]
    order = list(range(len(values)))
    random.shuffle(order)
    batch = scored(values, turns=2)
    straight = Credit(TURN).advantages(batch, groups)
    shuffled = Credit(TURN).advantages([batch[i] for i in order], [groups[i] for i in order])
    assert [pytest.approx(row, abs=1e-6) for row in shuffled] == [straight[i] for i in order]


@each_row("mode", CreditMode)
def test_failed_trajectories_get_nothing_and_do_not_count(mode: CreditMode):
    batch = [*scored([1, 0, 0], turns=3), trajectory([{"low": 1.0}, {"outcome": 0.0}])]
    broken = trajectory([{"outcome": 5.0, "low": 9.0}] * 2, reason=Reason.INFRASTRUCTURE)
    credit = Credit(mode, low_reward(0.0))
    failed, *others = credit.advantages([broken, *batch], [0] * 5)
    assert failed == [0.0, 0.0]
    assert others == credit.advantages(batch, [0] * 4)
    assert credit.logged_rewards([broken]) == [None]


@each_row("mode", CreditMode)
def test_the_only_member_of_a_group_gets_nothing(mode: CreditMode):
    batch = [trajectory([{"outcome": 0.3, "low": 0.2}])]
    assert Credit(mode, low_reward(0.0)).advantages(batch, [0]) == [[0.0]]
    broken = trajectory([{"outcome": 1.0}], reason=Reason.CANCELLED)
    assert Credit(mode).advantages([*scored([1.0]), broken], [0, 0]) == [[0.0], [0.0]]


@given(st.lists(st.integers(1, 6), min_size=2, max_size=6), st.floats(0, 1))
def test_behind_a_shut_gate_equal_outcomes_earn_exactly_nothing(lengths: list[int], low: float):
    batch = [trajectory([{"outcome": 0.0, "low": low * turn} for turn in range(n)]) for n in lengths]
    rows = Credit(TURN, low_reward(1.0)).advantages(batch, [0] * len(batch))
    assert all(advantage == 0.0 for row in rows for advantage in row)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.25, 0.5])), min_size=2, max_size=8))
def test_in_single_turn_episodes_turn_and_trajectory_credit_rank_alike(pairs: list[tuple[float, float]]):
    batch = naturally_gated(*zip(*pairs, strict=True))
    by_turn, by_trajectory = (whole(Credit(mode, low_reward(1.0)), batch) for mode in (TURN, GATED))
    for i in range(len(batch)):
        for j in range(len(batch)):
            if by_trajectory[i] > by_trajectory[j] + 1e-9:
                assert by_turn[i] > by_turn[j]


@each_row("mode", CreditMode)
def test_truncated_episodes_can_be_kept_from_training_but_still_count(mode: CreditMode):
    batch = [*scored([1.0, 0.0]), trajectory([{"outcome": 0.0}], reason=Reason.MAX_TURNS)]
    trained = Credit(mode).advantages(batch, [0] * 3)
    masked = Credit(mode, train_on_truncated=False).advantages(batch, [0] * 3)
    assert trained[2] != [0.0]
    assert masked == [*trained[:2], [0.0]]


def test_turns_that_were_cut_off_can_be_kept_from_training():
    cut = trajectory([{"outcome": 0.0}, {"outcome": 1.0}])
    cut.turns[0].finish = "length"
    batch = [cut, *scored([0.0])]
    for episodes in (batch, [EpisodeNumbers.of(episode) for episode in batch]):
        trained = Credit().advantages(episodes, [0, 0])
        masked = Credit(train_on_truncated=False).advantages(episodes, [0, 0])
        assert trained[0][0] > 0
        assert masked == [[0.0, trained[0][1]], trained[1]]


def test_an_episode_without_a_turn_of_the_model_has_no_advantages():
    silent = trajectory([{"outcome": 0.0}], reason=Reason.CONTEXT, graded=1)
    assert Credit(TURN).advantages([silent, *scored([1.0])], [0, 0])[0] == []
