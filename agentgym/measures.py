"""`Measures`: what episodes cost and how their tools were used, besides whether they were solved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from agentgym.mistakes import OF_CALLS, OF_TURNS, Mistake, count_of
from agentgym.trajectory import Trajectory

UNRECORDED = "unrecorded"
"""The kind of mistakes in some recordings among others, made before kinds were counted."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Means over episodes that did not fail. `None` where nothing was measured."""

    reward: float | None
    """Mean reward per episode."""
    turns: float | None
    """Mean number of turns per episode."""
    calls: float | None
    """Mean number of tool calls per episode."""
    sampled_tokens: float | None
    """Mean number of sampled tokens per episode."""
    observed_tokens: float | None
    """Mean number of tokens per episode that the policy read but did not sample: prompt, tool results, template."""
    tool_error_rate: float | None
    """Share of tool calls that returned an error."""
    tool_errors: dict[str, float]
    """Maps the kind of mistake (`Mistake`) to its share of tool calls; they add up to `tool_error_rate`. Empty for
    recordings made before kinds were counted."""
    format_error_rate: float | None
    """Share of turns without a readable action."""
    format_errors: dict[str, float]
    """Maps the kind of mistake to its share of turns; they add up to `format_error_rate`."""
    seconds_per_episode: float | None
    """Mean wall-clock time of an episode."""
    seconds_median: float | None
    seconds_p95: float | None
    """95 % of the episodes took at most this long."""
    cost: float | None
    """Mean cost per episode, in the currency of the endpoint's prices."""


def measured(trajectories: Sequence[Trajectory]) -> Measures:
    """Measure trajectories that did not fail."""
    turns = sum(len(t.model_turns) for t in trajectories)
    calls = _total(trajectories, "calls")
    seconds = [t.seconds for t in trajectories]
    return Measures(
        reward=_mean(t.reward for t in trajectories),
        turns=_mean(len(t.model_turns) for t in trajectories),
        calls=_mean(t.counts["calls"] for t in trajectories if "calls" in t.counts),
        sampled_tokens=_mean_known(map(sampled_tokens, trajectories)),
        observed_tokens=_mean_known(map(observed_tokens, trajectories)),
        tool_error_rate=_share(_total(trajectories, "tool_errors"), calls),
        tool_errors=_by_kind(trajectories, OF_CALLS, _total(trajectories, "tool_errors"), calls),
        format_error_rate=_share(_total(trajectories, "format_errors"), turns),
        format_errors=_by_kind(trajectories, OF_TURNS, _total(trajectories, "format_errors"), turns),
        seconds_per_episode=_mean(seconds),
        seconds_median=median(seconds) if seconds else None,
        seconds_p95=float(np.quantile(seconds, 0.95)) if seconds else None,
        cost=_mean_known(t.usage.get("cost") for t in trajectories),
    )


def sampled_tokens(trajectory: Trajectory) -> float | None:
    """Return how many tokens the policy sampled: those recorded, else those that its endpoint counted."""
    if trajectory.tokens is not None:
        return trajectory.tokens.sampled
    return trajectory.usage.get("completion_tokens")


def observed_tokens(trajectory: Trajectory) -> float | None:
    """Return how many tokens the policy read without having sampled them. An endpoint does not tell."""
    if trajectory.tokens is None:
        return None
    return len(trajectory.tokens) - trajectory.tokens.sampled


def _by_kind(trajectories: Iterable[Trajectory], kinds: Iterable[Mistake], errors: int, whole: int) -> dict[str, float]:
    """Return the share of each kind of mistake, most frequent first; nothing if no kind was recorded."""
    counts = [t.counts for t in trajectories]
    found = {kind.value: sum(count_of(kind, one) for one in counts) for kind in kinds}
    if not (recorded := sum(found.values())):
        return {}
    found[UNRECORDED] = errors - recorded
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {kind: count / whole for kind, count in ordered if count > 0 and whole}


def _total(trajectories: Iterable[Trajectory], count: str) -> int:
    return sum(t.counts.get(count, 0) for t in trajectories)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None


def _mean_known(values: Iterable[float | None]) -> float | None:
    return _mean(value for value in values if value is not None)
