"""The verdict on a finished run: what it gained, how its episodes end, and what to try next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import fmean
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory
from agentgym.eval.comparison import compare, run_of
from agentgym.eval.statistics import Interval
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.run_folder import resume_command

_MANY = 0.5
"""Share from which an ending or flat groups explain a result."""
_SOME = 0.1
"""Share from which cut turns or unreadable turns do."""
_LOW, _HIGH = 0.05, 0.95
"""Success rates at which too few groups differ."""


@dataclass(frozen=True)
class Verdict:
    """A finished run in a few numbers."""

    gain: float | None
    """Difference of the success on held-out tasks, after minus before; `None` if no task has results of both."""
    interval: Interval | None
    """95 % interval of the gain, over tasks."""
    ending: str | None
    """The most frequent ending after training."""
    ending_share: float
    flat_groups: float | None
    """Share of the groups in training whose rewards were all equal, which teach nothing; `None` if not recorded."""
    cut_turns: float
    """Share of turns after training that were cut off at the token limit."""
    unreadable_turns: float
    """Share of turns after training without a readable action."""
    suggestion: str
    """What to try next."""

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON data."""
        return asdict(self)

    @property
    def text(self) -> str:
        """The verdict on a few lines."""
        points = "unknown" if self.gain is None else f"{100 * self.gain:+.1f} points"
        if self.interval is not None:
            points += f" ({100 * self.interval.low:+.1f} to {100 * self.interval.high:+.1f})"
        shares = [f"main ending {self.ending} ({self.ending_share:.0%})"] if self.ending else []
        shares += [] if self.flat_groups is None else [f"flat groups {self.flat_groups:.0%}"]
        shares += [f"cut turns {self.cut_turns:.0%}", f"unreadable turns {self.unreadable_turns:.0%}"]
        return f"gain {points}; {', '.join(shares)}\nnext: {self.suggestion}"


def verdict_on(
    config: TrainConfig,
    before: Iterable[Trajectory],
    after: Iterable[Trajectory],
    metrics: Sequence[Mapping[str, float]],
) -> Verdict:
    """Return the verdict on a run.

    Args:
        config: Its settings.
        before: The episodes of the evaluation before training.
        after: Those after training.
        metrics: The metrics of its steps.
    """
    played = list(after)
    gain, interval = _gain(before, played)
    finished = [trajectory for trajectory in played if not trajectory.failed]
    turns = list(chain.from_iterable(trajectory.model_turns for trajectory in finished))
    [(ending, count)] = Counter(str(t.reason) for t in finished).most_common(1) or [(None, 0)]
    flat = [line["flat_groups"] for line in metrics if "flat_groups" in line]
    numbers = {
        "gain": gain,
        "interval": interval,
        "ending": ending,
        "ending_share": count / max(1, len(finished)),
        "flat_groups": fmean(flat) if flat else None,
        "cut_turns": sum(turn.finish == "length" for turn in turns) / max(1, len(turns)),
        "unreadable_turns": sum(t.counts.get("format_errors", 0) for t in finished) / max(1, len(turns)),
    }
    success = fmean(trajectory.success for trajectory in finished) if finished else None
    return Verdict(**numbers, suggestion=_suggestion(config, success, numbers, metrics))


def _gain(before: Iterable[Trajectory], after: Sequence[Trajectory]) -> tuple[float | None, Interval | None]:
    try:
        success = compare(run_of("before", before), run_of("after", after)).overall.success
    except UsageError:  # no task has a valid episode on both sides
        return None, None
    return success.difference, success.interval


_LIMITS = {
    Reason.MAX_TURNS: "episodes run out of turns: allow more (--set max_turns=...), or choose easier tasks",
    Reason.TOKEN_BUDGET: "episodes use up their tokens: raise --max-tokens",
    Reason.CONTEXT: "conversations do not fit: raise --context in a new run",
    Reason.GENERATION_TIME: "turns take too long: raise --generation-timeout-s, or lower --max-in-flight",
    Reason.TIME: "episodes take too long: raise --episode-timeout-s",
    Reason.FORMAT_ERRORS: "calls cannot be read: raise --warm-start-steps, or choose the model's own --dialect",
}


def _suggestion(
    config: TrainConfig, success: float | None, numbers: Mapping[str, Any], metrics: Sequence[Mapping[str, float]]
) -> str:
    """Return one thing to try next, for the first number that explains the result."""
    flat = numbers["flat_groups"]
    if success is None:
        return "all episodes of the evaluation failed: read their errors (`agentgym show eval-after.jsonl`)"
    if config.quick:
        return "the whole run works; for a result, train without --quick"
    if numbers["cut_turns"] >= _SOME:
        return f"turns are cut off at {config.max_new_tokens} tokens: raise --max-new-tokens in a new run"
    if numbers["unreadable_turns"] >= _SOME:
        return _LIMITS[Reason.FORMAT_ERRORS]
    if numbers["ending_share"] >= _MANY and numbers["ending"] in _LIMITS:
        return _LIMITS[Reason(numbers["ending"])]
    if success >= _HIGH:
        return "nearly all held-out tasks are solved: choose harder ones (--set difficulty=...)"
    if success <= _LOW and (flat is None or flat >= _MANY):
        return "hardly anything is solved: choose easier tasks, or raise --warm-start-steps"
    if flat is not None and flat >= _MANY:
        return (
            f"most groups teach nothing: raise --group-size (now {config.group_size}), or replace flat groups "
            "(--refill-rounds 2)"
        )
    return _about_the_gain(config, numbers["interval"], metrics)


def _about_the_gain(config: TrainConfig, interval: Interval | None, metrics: Sequence[Mapping[str, float]]) -> str:
    more = f"`{resume_command(config.folder)} --steps {2 * config.steps}`"
    if interval is not None and interval.high < 0:
        return f"it got worse: lower --learning-rate (now {config.learning_rate:g}), and check sampler_gap"
    if interval is not None and interval.low > 0:
        return f"it is learning: continue with {more}"
    rewards = [line["reward"] for line in metrics if "reward" in line]
    half = len(rewards) // 2
    if half and fmean(rewards[half:]) > fmean(rewards[:half]):
        return f"the reward rises, but the gain may be chance: continue with {more}"
    return f"the reward does not rise: raise --learning-rate (now {config.learning_rate:g}) or --groups"
