"""The verdict on a finished run: what it gained, how its episodes end, and what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from agentgym.base.errors import UsageError
from agentgym.core.endings import Ending, Reason
from agentgym.core.trajectory import Trajectory
from agentgym.eval.comparison import compare, run_of
from agentgym.eval.statistics import Interval
from agentgym.eval.summary import Summary
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.run_folder import resume_command

_MANY = 0.5
"""Least share of an ending or of flat groups that explains a result."""
_SOME = 0.1
"""Least share of cut turns or unreadable turns that does."""
_LOW, _HIGH = 0.05, 0.95
"""Below and above these success rates, too few groups have different rewards."""


@dataclass(frozen=True)
class Verdict:
    """A finished run in a few numbers."""

    gain: float | None
    """Difference of the success on held-out tasks, after minus before; `None` if no task has results of both."""
    interval: Interval | None
    """95 % interval of the gain, over tasks."""
    ending: Reason | None
    """The most frequent ending after training; `None` if all episodes failed."""
    ending_share: float
    flat_groups: float | None
    """Share of the groups in training whose rewards were all equal, which teach nothing; `None` if not recorded."""
    cut_turns: float
    """Share of turns after training that a limit of tokens or time cut off."""
    unreadable_turns: float
    """Share of turns after training without a readable action."""
    suggestion: str
    """What to try next."""

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
    summary: Summary,
    metrics: Sequence[Mapping[str, float]],
) -> Verdict:
    """Return the verdict on a run.

    Args:
        config: Its settings.
        before: The episodes of the evaluation before training.
        after: Those after training.
        summary: The summary of `after`.
        metrics: The metrics of its steps.
    """
    gain, interval = _gain(before, after)
    counts = {Reason(reason): count for reason, count in summary.endings.items()}
    ending = next((reason for reason in counts if reason.ending is not Ending.FAILED), None)
    flat = [line["flat_groups"] for line in metrics if "flat_groups" in line]
    verdict = Verdict(
        gain=gain,
        interval=interval,
        ending=ending,
        ending_share=counts[ending] / summary.overall.attempts if ending else 0.0,
        flat_groups=fmean(flat) if flat else None,
        cut_turns=summary.cut_turn_rate or 0.0,
        unreadable_turns=summary.format_error_rate or 0.0,
        suggestion="",
    )
    return replace(verdict, suggestion=_suggestion(config, summary.success, verdict, metrics))


def _gain(before: Iterable[Trajectory], after: Iterable[Trajectory]) -> tuple[float | None, Interval | None]:
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
    config: TrainConfig, success: float | None, verdict: Verdict, metrics: Sequence[Mapping[str, float]]
) -> str:
    """Return one thing to try next, for the first number that explains the result."""
    flat = verdict.flat_groups
    if success is None:
        file = shlex.quote(str(config.folder / "eval-after.jsonl"))
        return f"all episodes of the evaluation failed: read their errors (`agentgym show {file}`)"
    if config.quick:
        return "the whole run works; for a result, train without --quick"
    explains = verdict.ending in _LIMITS and verdict.ending_share >= _MANY
    if verdict.cut_turns >= _SOME and not (explains and verdict.ending is Reason.GENERATION_TIME):
        return f"turns are cut off: raise --max-new-tokens (now {config.max_new_tokens}) in a new run"
    if verdict.unreadable_turns >= _SOME:
        return _LIMITS[Reason.FORMAT_ERRORS]
    if verdict.ending is not None and explains:
        return _LIMITS[verdict.ending]
    if success >= _HIGH:
        return "nearly all held-out tasks are solved: choose harder ones (--set difficulty=...)"
    if success <= _LOW and (flat is None or flat >= _MANY):
        return "hardly anything is solved: choose easier tasks, or raise --warm-start-steps"
    if flat is not None and flat >= _MANY:
        return (
            f"most groups teach nothing: raise --group-size (now {config.group_size}), or replace flat groups "
            "(--refill-rounds 2)"
        )
    return _about_the_gain(config, verdict.interval, metrics)


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
