"""The metrics of a batch of trajectories."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean

from agentgym.core.endings import Ending
from agentgym.eval.statistics import success_interval
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.episode_numbers import EpisodeNumbers


def batch_metrics(episodes: Sequence[EpisodeNumbers], credit: Credit) -> dict[str, float]:
    """Return metrics of one step with at least one episode.

    Failed episodes count only in `failed`, and by what failed in `failed/<component>`.
    """
    played = [e for e in episodes if not e.failed]
    metrics = {"failed": 1 - len(played) / len(episodes)}
    for component, count in Counter(e.component for e in episodes if e.failed and e.component).items():
        metrics[f"failed/{component}"] = count / len(episodes)
    if not played:
        return metrics
    calls = sum(e.counts.get("calls", 0) for e in played)
    turns = sum(len(e.model_turns) for e in played)
    rewards = credit.logged_rewards(episodes)
    metrics |= {
        "reward": fmean(reward for reward in rewards if reward is not None),
        "success": fmean(e.success for e in played),
        **_success_interval(played, group_numbers(played)),
        "turns": turns / len(played),
        "truncated": fmean(e.ending is Ending.TRUNCATED for e in played),
        "tool_errors": sum(e.counts.get("tool_errors", 0) for e in played) / max(1, calls),
        "cut_turns": sum(sum(e.cut_turns) for e in played) / max(1, turns),
        "format_errors": sum(e.counts.get("format_errors", 0) for e in played) / max(1, turns),
        "flat_groups": flat_groups(rewards, group_numbers(episodes)),
        "sampled_tokens": fmean(e.sampled_tokens for e in played if e.token_count),
    }
    for channel in played[0].channels[0] if played[0].channels else ():
        metrics[f"channel/{channel}"] = fmean(sum(turn.get(channel, 0.0) for turn in e.channels) for e in played)
    return metrics


def _success_interval(played: Sequence[EpisodeNumbers], groups: Sequence[int]) -> dict[str, float]:
    """Return the ends of the 95 % interval of the success on tasks such as these; groups are the units."""
    members: defaultdict[int, list[bool]] = defaultdict(list)
    for episode, group in zip(played, groups, strict=True):
        members[group].append(episode.success)
    low, high = success_interval(list(members.values()))
    return {"success/low": low, "success/high": high}


def flat_groups(rewards: Sequence[float | None], groups: Sequence[int]) -> float:
    """Return the share of groups whose rewards are all equal, which teach nothing."""
    members: defaultdict[int, set[float]] = defaultdict(set)
    for reward, group in zip(rewards, groups, strict=True):
        members[group] |= set() if reward is None else {reward}
    return fmean(len(values) < 2 for values in members.values())
