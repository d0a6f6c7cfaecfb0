"""Metrics of a batch of trajectories, to follow the progress of training. Pure functions of trajectories."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean

from agentgym.endings import Ending
from agentgym.statistics import task_interval
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trajectory import Trajectory


def batch_metrics(trajectories: Sequence[Trajectory], credit: Credit) -> dict[str, float]:
    """Return metrics of one step with at least one trajectory.

    Failed trajectories count only in `failed`, and by what failed in `failed/<component>`.
    """
    played = [t for t in trajectories if not t.failed]
    metrics = {"failed": 1 - len(played) / len(trajectories)}
    for component, count in Counter(t.component for t in trajectories if t.failed and t.component).items():
        metrics[f"failed/{component}"] = count / len(trajectories)
    if not played:
        return metrics
    calls = sum(t.counts.get("calls", 0) for t in played)
    turns = sum(len(t.model_turns) for t in played)
    rewards = credit.logged_rewards(trajectories)
    metrics |= {
        "reward": fmean(reward for reward in rewards if reward is not None),
        "success": fmean(t.success for t in played),
        **_success_interval(played, group_numbers(played)),
        "turns": turns / len(played),
        "truncated": fmean(t.ending is Ending.TRUNCATED for t in played),
        "tool_errors": sum(t.counts.get("tool_errors", 0) for t in played) / max(1, calls),
        "format_errors": sum(t.counts.get("format_errors", 0) for t in played) / max(1, turns),
        "flat_groups": flat_groups(rewards, group_numbers(trajectories)),
        "sampled_tokens": fmean(t.tokens.sampled for t in played if t.tokens),
    }
    for channel in played[0].turns[0].rewards if played[0].turns else ():
        metrics[f"channel/{channel}"] = fmean(sum(turn.get(channel, 0.0) for turn in t.channels) for t in played)
    return metrics


def _success_interval(played: Sequence[Trajectory], groups: Sequence[int]) -> dict[str, float]:
    """Return the ends of the 95 % interval of the success on tasks such as these; groups are the units."""
    members: defaultdict[int, list[bool]] = defaultdict(list)
    for trajectory, group in zip(played, groups, strict=True):
        members[group].append(trajectory.success)
    low, high = task_interval([fmean(group) for group in members.values()], len(played))
    return {"success/low": low, "success/high": high}


def flat_groups(rewards: Sequence[float | None], groups: Sequence[int]) -> float:
    """Return the share of groups whose rewards are all equal, which teach nothing."""
    members: defaultdict[int, set[float]] = defaultdict(set)
    for reward, group in zip(rewards, groups, strict=True):
        members[group] |= set() if reward is None else {reward}
    return fmean(len(values) < 2 for values in members.values())
