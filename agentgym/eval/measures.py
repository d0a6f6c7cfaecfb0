"""`Measures`: metrics of episodes besides success, such as cost, time and tool use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np

from agentgym.base.errors import NEAR_MISSES, OF_CALLS, OF_TURNS, Mistake, count_of
from agentgym.core.trajectory import Trajectory
from agentgym.eval.results.entry import Entry
from agentgym.eval.statistics import brier_score, expected_calibration_error

UNRECORDED = "unrecorded"
"""The kind reported for mistakes in recordings made before kinds were counted."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Means over episodes that did not fail. `None` where nothing was measure."""

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
    input_tokens: float | None
    """Mean number of tokens of all requests of an episode; each turn sends the conversation before it again."""
    tool_error_rate: float | None
    """Share of tool calls that returned an error."""
    tool_errors: dict[str, float]
    """Maps the kind of mistake (`Mistake`) to its share of tool calls; they add up to `tool_error_rate`. Empty for
    recordings made before kinds were counted."""
    format_error_rate: float | None
    """Share of turns without a readable action."""
    format_errors: dict[str, float]
    """Maps the kind of mistake to its share of turns; they add up to `format_error_rate`."""
    near_misses: dict[str, float]
    """Maps the kind of near miss (`near_misses.FORMS`) to its share of turns: readable calls in a form that the dialect
    does not read. Most frequent first."""
    cut_turn_rate: float | None
    """Share of turns that a limit of tokens or time cut off, so that nothing in them was run."""
    seconds_per_episode: float | None
    """Mean wall-clock time of an episode."""
    seconds_median: float | None
    seconds_p95: float | None
    """95 % of the episodes took at most this long."""
    generation_seconds: float | None
    """Mean time per episode spent waiting for the policy."""
    environment_seconds: float | None
    """Mean time per episode spent waiting for the environment, excluding construction and reset."""
    cost: float | None
    """Mean cost per episode, in the currency of the endpoint's prices."""
    feedback: dict[str, float] = field(default_factory=dict)
    """Mean number of comments by a simulated user (`feedback`), and of comments withheld because they revealed the gold
    (`feedback_withheld`); empty without such a user."""
    search: dict[str, float] = field(default_factory=dict)
    """Mean of each count over the whole search behind an episode; empty without a search.
    The other numbers are those of the chosen line of play."""


def measure(entries: Sequence[Entry]) -> Measures:
    """Measure episodes that did not fail."""
    turns = sum(t.turns for t in entries)
    calls = _total(entries, "calls")
    seconds = [t.seconds for t in entries]
    return Measures(
        reward=_mean(t.reward for t in entries),
        turns=_mean(t.turns for t in entries),
        calls=_mean(t.counts["calls"] for t in entries if "calls" in t.counts),
        sampled_tokens=_mean_known(t.sampled_tokens for t in entries),
        observed_tokens=_mean_known(t.observed_tokens for t in entries),
        input_tokens=_mean_known(t.input_tokens for t in entries),
        tool_error_rate=_share(_total(entries, "tool_errors"), calls),
        tool_errors=_by_kind(entries, OF_CALLS, _total(entries, "tool_errors"), calls),
        format_error_rate=_share(_total(entries, "format_errors"), turns),
        format_errors=_by_kind(entries, OF_TURNS, _total(entries, "format_errors"), turns),
        near_misses=_near_misses(entries, turns),
        cut_turn_rate=_share(sum(t.cut_turns for t in entries), turns),
        seconds_per_episode=_mean(seconds),
        seconds_median=median(seconds) if seconds else None,
        seconds_p95=float(np.quantile(seconds, 0.95)) if seconds else None,
        generation_seconds=_mean_known(t.generation_s for t in entries),
        environment_seconds=_mean_known(t.environment_s for t in entries),
        cost=_mean_known(t.usage.get("cost") for t in entries),
        feedback=_means([t.counts for t in entries if "feedback" in t.counts], "feedback"),
        search=_means([t.search for t in entries if t.search]),
    )


def _by_kind(entries: Iterable[Entry], kinds: Iterable[Mistake], errors: int, whole: int) -> dict[str, float]:
    """Return the share of each kind of mistake, most frequent first; nothing if no kind was recorded."""
    counts = [t.counts for t in entries]
    by_kind = {kind.value: sum(count_of(kind, episode_counts) for episode_counts in counts) for kind in kinds}
    if not (recorded := sum(by_kind.values())):
        return {}
    by_kind[UNRECORDED] = errors - recorded
    ordered = sorted(by_kind.items(), key=lambda item: -item[1])
    return {kind: count / whole for kind, count in ordered if count > 0 and whole}


def _near_misses(entries: Iterable[Entry], turns: int) -> dict[str, float]:
    """Return the share of turns of each kind of near miss, most frequent first."""
    counts: Counter[str] = Counter()
    for entry in entries:
        counts.update({name: count for name, count in entry.counts.items() if name.startswith(NEAR_MISSES)})
    return {name.removeprefix(NEAR_MISSES): count / turns for name, count in counts.most_common() if turns}


def _total(entries: Iterable[Entry], count: str) -> int:
    return sum(t.counts.get(count, 0) for t in entries)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return fmean(numbers) if numbers else None


def _means(counts: Sequence[Mapping[str, float]], start: str = "") -> dict[str, float]:
    """Return the mean of each count whose name begins with `start`; a missing count is 0."""
    names = dict.fromkeys(name for episode_counts in counts for name in episode_counts if name.startswith(start))
    return {name: fmean(episode_counts.get(name, 0.0) for episode_counts in counts) for name in names}


def _mean_known(values: Iterable[float | None]) -> float | None:
    return _mean(value for value in values if value is not None)


CONFIDENCE_DETAIL = "confidence"
"""The entry of `Env.details` that holds the confidence, from 0 to 1."""


def calibration(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return calibration metrics for `Env.figures`; empty if no confidence was stated.

    An environment reports a confidence as `details()["confidence"]`, from 0 to 1. Trajectories without one are skipped,
    as are values out of range, since they come from the model.
    """
    stated = [(_calibration_share(t.details.get(CONFIDENCE_DETAIL)), t.success) for t in trajectories]
    pairs = [(value, success) for value, success in stated if value is not None]
    if not pairs:
        return {}
    confidences, successes = [value for value, _ in pairs], [success for _, success in pairs]
    return {
        "confidence": sum(confidences) / len(pairs),
        "calibration error": expected_calibration_error(confidences, successes),
        "Brier score": brier_score(confidences, successes),
    }


def _calibration_share(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= 1 else None
