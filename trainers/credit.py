"""Credit assignment: turns the trajectories of a batch into one advantage per turn. Pure functions, no torch.

All three modes gate before they normalise, so that a closed gate means "no reward", not "average reward".

- `outcome`: GRPO (arXiv 2402.03300) on the outcome channel; every turn of a trajectory gets the same advantage.
- `gated`: GRPO on the environment's gated scheme (Gated Reward Accumulation, arXiv 2508.10548), trajectory level.
- `turn`: the advantage of the outcome plus `turn_weight` times the advantage of the gated reward-to-go of each turn,
  compared over all turns of the group (MT-GRPO's two streams, arXiv 2505.11821, for any number of turns).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agentgym.core.endings import Ending
from agentgym.core.rewards import OUTCOME, Scheme
from agentgym.core.trajectory import Trajectory
from agentgym.trainers.credit_mode import CreditMode as CreditMode
from agentgym.trainers.episode_numbers import EpisodeNumbers

RewardedEpisode = Trajectory | EpisodeNumbers
"""An episode that credit can be assigned to."""


@dataclass(frozen=True)
class Credit:
    """A credit assignment method and its parameters."""

    mode: CreditMode = CreditMode.GATED
    scheme: Scheme = field(default_factory=Scheme)
    """The environment's scheme; `outcome` mode reads only the outcome channel."""
    scale_by_std: bool = True
    """Divide by the group's standard deviation (GRPO); `False` only centres (Dr. GRPO, arXiv 2503.20783)."""
    turn_weight: float = 0.5
    """Weight of the turn stream (mode `turn`)."""
    negative_weight: float = 1.0
    """Factor on negative advantages. Below 1, good turns count more than bad ones: lowering the probability of rare
    samples spreads it over everything else, which raises the entropy of a small model."""
    gamma: float = 1.0
    """Discount of later rewards, per turn."""
    at_least: int = 2
    """Train on a group only if at least this many of its trajectories did not fail."""
    train_on_truncated: bool = True
    """Whether truncated episodes, and turns that a limit cut off, are in the loss. Their rewards always count in the
    group."""

    def advantages(self, trajectories: Sequence[RewardedEpisode], groups: Sequence[int]) -> list[list[float]]:
        """Return one advantage per model turn of each trajectory.

        Args:
            trajectories: A whole batch; failed trajectories get 0 everywhere and do not count in their group.
            groups: The group of each trajectory (`group_numbers`).
        """
        rewards = [episode_reward(t, self.mode, self.scheme) for t in trajectories]
        whole = normalise(rewards, groups, scale_by_std=self.scale_by_std)
        turns = [len(t.model_turns) for t in trajectories]
        result = [[advantage] * count for advantage, count in zip(whole, turns, strict=True)]
        if self.mode is CreditMode.TURN:
            for row, extra in zip(result, self._turn_stream(trajectories, groups), strict=True):
                row[:] = [a + self.turn_weight * b for a, b in zip(row, extra, strict=True)]
        return [
            [self._weighed(a) if is_trained else 0.0 for a, is_trained in zip(row, trained, strict=True)]
            for row, trained in zip(result, self.trained_turns(trajectories, groups), strict=True)
        ]

    def trained_turns(self, trajectories: Sequence[RewardedEpisode], groups: Sequence[int]) -> list[list[bool]]:
        """Return for each model turn of each trajectory whether it may contribute to the loss, in any of its terms.

        Failed trajectories do not, nor groups with fewer than `at_least` others, nor truncated turns without
        `train_on_truncated`.
        """
        real = Counter(group for trajectory, group in zip(trajectories, groups, strict=True) if not trajectory.failed)
        sizes = Counter(groups)
        return [
            [self._is_trained(t, is_cut) and real[group] >= min(self.at_least, sizes[group]) for is_cut in t.cut_turns]
            for t, group in zip(trajectories, groups, strict=True)
        ]

    def _is_trained(self, trajectory: RewardedEpisode, is_cut: bool) -> bool:
        is_truncated = is_cut or trajectory.ending is Ending.TRUNCATED
        return not trajectory.failed and (self.train_on_truncated or not is_truncated)

    def _weighed(self, advantage: float) -> float:
        return advantage if advantage > 0 else advantage * self.negative_weight

    def logged_rewards(self, trajectories: Sequence[RewardedEpisode]) -> list[float | None]:
        """Return the reward to compare each trajectory by; `None` for a failed one."""
        rewards = [episode_reward(t, self.mode, self.scheme) for t in trajectories]
        return [None if math.isnan(reward) else reward for reward in rewards]

    def _turn_stream(self, trajectories: Sequence[RewardedEpisode], groups: Sequence[int]) -> list[list[float]]:
        """Normalise each turn's reward-to-go over all turns of its group."""
        to_go = [
            reward_to_go(shaping_rewards(t, self.scheme), self.gamma)
            if not t.failed
            else [math.nan] * len(t.model_turns)
            for t in trajectories
        ]
        flat = [value for row in to_go for value in row]
        owners = [group for row, group in zip(to_go, groups, strict=True) for _ in row]
        values = iter(normalise(flat, owners, scale_by_std=self.scale_by_std))
        return [[next(values) for _ in row] for row in to_go]


def advantages_by_mode(group: Sequence[RewardedEpisode], scheme: Scheme) -> dict[str, list[list[float]]]:
    """Return the advantages of one group in every mode, with the default parameters: mode → trajectory → model turn."""
    numbers = [0] * len(group)
    return {str(mode): Credit(mode=mode, scheme=scheme).advantages(group, numbers) for mode in CreditMode}


def group_numbers(trajectories: Sequence[RewardedEpisode]) -> list[int]:
    """Return the number of each trajectory's group, from 0. Trajectories of the same task and seed are a group."""
    numbers: dict[tuple[str, int | None], int] = {}
    return [numbers.setdefault((t.task_id, t.seed), len(numbers)) for t in trajectories]


def episode_reward(trajectory: RewardedEpisode, mode: CreditMode, scheme: Scheme) -> float:
    """Return the reward to compare a trajectory by within its group; NaN for a failed one."""
    if trajectory.failed:
        return math.nan
    return scheme.total(trajectory.channels) if mode is CreditMode.GATED else trajectory.outcome


def shaping_rewards(trajectory: RewardedEpisode, scheme: Scheme) -> list[float]:
    """Return each model turn's reward without the outcome, after the scheme's gates.

    Rewards from the grading of an interrupted episode count for the model's last turn.
    """
    earned = scheme.without(OUTCOME).turn_rewards(trajectory.channels)
    count = len(trajectory.model_turns)
    if count and len(earned) > count:
        earned[count - 1] += sum(earned[count:])
    return earned[:count]


def reward_to_go(rewards: Sequence[float], gamma: float) -> list[float]:
    """Return, for each turn, the discounted sum of its reward and all later ones."""
    result: list[float] = []
    later = 0.0
    for reward in reversed(rewards):
        later = reward + gamma * later
        result.append(later)
    return result[::-1]


def normalise(
    values: Sequence[float], groups: Sequence[int], *, scale_by_std: bool = True, epsilon: float = 1e-4
) -> list[float]:
    """Centre values in their groups; with `scale_by_std`, also divide by the group's standard deviation (ddof 1).

    NaN values do not count and become 0, as do the only value of a group and values that are all equal.
    """
    result = np.zeros(len(values))
    array, owners = np.asarray(values, dtype=float), np.asarray(groups)
    for group in dict.fromkeys(groups):
        members = (owners == group) & ~np.isnan(array)
        if members.sum() < 2 or np.ptp(array[members]) == 0:
            continue  # the mean of equal numbers may differ from them in the last digit
        centred = array[members] - array[members].mean()
        result[members] = centred / (array[members].std(ddof=1) + epsilon) if scale_by_std else centred
    return result.tolist()
