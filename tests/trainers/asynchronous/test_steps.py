"""What a step learns from: stretches of turns, old tokens, the weights of episodes, and rows for several processes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from agentgym.core.task import Task
from agentgym.rollout import Group, PlayedGroup
from agentgym.trainers.asynchronous.playing import Played
from agentgym.trainers.asynchronous.steps import packed, step_samples

pytestmark = [pytest.mark.real, pytest.mark.train, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def played(trajectory: Any) -> Played:
    """Three episodes: of three turns that three versions sampled, of two turns, and a failed one."""
    trajectories = [trajectory(0, [[20], [21, 22], [23]], 1.0), trajectory(1, [[24], [25]], 0.0),
                    trajectory(2, [[26]], 0.0, broken=True)]  # fmt: skip
    for turn, version in zip(trajectories[0].turns, (3, 5, 5), strict=True):
        trajectories[0].tokens.versions[slice(*turn.span)] = [version] * (turn.span[1] - turn.span[0])
    for turn in trajectories[1].turns:
        trajectories[1].tokens.versions[slice(*turn.span)] = [5] * (turn.span[1] - turn.span[0])
    group = PlayedGroup(Group(Task("t", "train", "?"), 0, 3), trajectories)
    return Played(7, group, [[1.0, 1.0, 1.0], [-1.0, -2.0], [0.0]], [[True] * 3, [True, True], [False]])


def test_a_sample_has_one_advantage_and_one_version_and_all_that_came_before(played: Played):
    samples = step_samples([played], 5, 2, "dapo", 100).samples
    assert [(s["advantage"], s["is_fresh"], s["completion_mask"].sum()) for s in samples] == [
        (1.0, False, 1), (1.0, True, 3), (-1.0, True, 1), (-2.0, True, 1),
    ]  # fmt: skip
    tokens: Any = played.group.trajectories[0].tokens
    assert samples[1]["input_ids"].tolist() == tokens.prompt_ids + tokens.completion_ids
    assert samples[1]["old_log_probs"].tolist() == [0, 0, 0, 0, 0, 0, -1, -1, 0, 0, -1]


def test_old_tokens_lose_their_loss_and_are_counted_by_the_length_of_their_episode(played: Played):
    step = step_samples([played], 5, 1, "dapo", 100)
    assert [s["completion_mask"].sum() for s in step.samples] == [3, 1, 1]
    assert step.tokens == 5
    assert step.staleness.metrics == {
        "staleness": 2 / 6, "staleness_max": 2.0, "stale_tokens": 1 / 6,
        "stale_tokens/3-4_turns": 1 / 4, "stale_tokens/1-2_turns": 0.0,
    }  # fmt: skip


def test_losses_weigh_episodes_differently(played: Played):
    weights = {
        loss: [s["advantage"] / step.tokens for s in step.samples]
        for loss in ("dapo", "grpo", "dr_grpo")
        for step in [step_samples([played], 5, 2, loss, 100)]
    }
    assert weights["dapo"] == pytest.approx([1 / 6, 1 / 6, -1 / 6, -2 / 6])
    assert weights["grpo"] == pytest.approx([1 / 8, 1 / 8, -1 / 4, -2 / 4])
    assert weights["dr_grpo"] == pytest.approx([1 / 200, 1 / 200, -1 / 200, -2 / 200])


def test_groups_without_differences_give_an_update_without_a_gradient(played: Played):
    flat = Played(7, played.group, [[0.0] * 3, [0.0] * 2, [0.0]], played.trained)
    step = step_samples([flat], 5, 2, "dapo", 100)
    assert [s["advantage"] for s in step.samples] == [0.0]
    assert (step.tokens, step.real_tokens) == (6, 4)


def test_each_process_has_a_row_in_each_micro_batch_and_no_row_is_too_long(played: Played):
    others = [Played(number, played.group, played.advantages, played.trained) for number in range(3)]
    step = packed(step_samples(others, 5, 2, "dapo", 100), processes=2, budget=20)
    rows = [row for rows in step.micro_batches for row in rows]
    assert all(len(rows) == 2 for rows in step.micro_batches)
    assert all(1 <= len(row.tokens) <= 20 for row in rows)
    advantages = sorted(s["advantage"] for row in rows for s in row.samples if s["advantage"])
    assert advantages == sorted([1.0, 1.0, -1.0, -2.0] * 3)
