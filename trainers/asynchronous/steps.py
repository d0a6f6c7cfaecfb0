"""Turns the played groups of a step into what TRL's asynchronous trainer learns from.

A sample is a stretch of consecutive turns of a conversation that have one advantage and one version of the weights. It
begins with the whole conversation before it: TRL computes shared beginnings once (`TreeRow`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.trainers.async_seam import PackedStep, RolloutSample, TreeRow
from agentgym.trainers.asynchronous.playing import Played
from agentgym.trainers.staleness import EPISODE_LENGTHS


@dataclass(frozen=True)
class Stretch:
    """Consecutive turns with one advantage that were sampled with one version of the weights."""

    tokens: Tokens
    spans: Sequence[tuple[int, int]]
    """Of the turns, in `tokens.completion_ids`."""
    advantage: float
    version: int
    turns: int
    """Turns of the whole episode."""

    @property
    def count(self) -> int:
        """Number of sampled tokens."""
        return sum(end - start for start, end in self.spans)

    def sample(self, group: int, weight: float = 1.0) -> RolloutSample:
        """Return the stretch for TRL."""
        tokens, end = self.tokens, self.spans[-1][1]
        before = len(tokens.prompt_ids)
        mask, logprobs = np.zeros(before + end, dtype=np.int64), np.zeros(before + end, dtype=np.float32)
        for start, stop in self.spans:
            mask[before + start : before + stop] = 1
            logprobs[before + start : before + stop] = tokens.logprobs[start:stop]
        ids = np.asarray(tokens.prompt_ids + tokens.completion_ids[:end], dtype=np.int64)
        return RolloutSample([], [], ids, mask, logprobs, self.advantage * weight, self.version, group, {})


def stretches(trajectory: Trajectory, advantages: Sequence[float], trained: Sequence[bool]) -> Iterator[Stretch]:
    """Yield the stretches of an episode that count in the loss, those with advantage 0 too; none of a failed one."""
    tokens = trajectory.tokens
    if tokens is None or trajectory.failed:
        return
    turns = [
        (advantage, tokens.versions[turn.span[0]], turn.span)
        for turn, advantage, counts in zip(trajectory.model_turns, advantages, trained, strict=True)
        if counts and turn.span is not None and turn.span[0] < turn.span[1]
    ]
    for (advantage, version), members in groupby(turns, key=lambda turn: turn[:2]):
        yield Stretch(tokens, [span for _, _, span in members], advantage, version, len(trajectory.model_turns))


@dataclass
class Staleness:
    """How old the tokens of a step are, and which of them were too old to learn from."""

    tokens: int = 0
    lost: int = 0
    ages: int = 0
    """The sum over all tokens."""
    oldest: int = 0
    by_length: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """Tokens, and lost ones, by the class of their episode's length."""

    def add(self, stretch: Stretch, age: int, *, is_lost: bool) -> None:
        """Count a stretch."""
        count = stretch.count
        self.tokens += count
        self.ages += age * count
        self.oldest = max(self.oldest, age)
        self.lost += count * is_lost
        tally = self.by_length[next(name for name, turns in EPISODE_LENGTHS.items() if stretch.turns in turns)]
        tally[0] += count
        tally[1] += count * is_lost

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the step; `stale_tokens/N_turns` shows whether long episodes lose more."""
        if not self.tokens:
            return {}
        shares = {f"stale_tokens/{name}_turns": lost / total for name, (total, lost) in self.by_length.items()}
        return {
            "staleness": self.ages / self.tokens,
            "staleness_max": float(self.oldest),
            "stale_tokens": self.lost / self.tokens,
            **(shares if self.lost else {}),
        }


@dataclass(frozen=True)
class StepSamples:
    """The samples of a step, and what the loss of their tokens is divided by."""

    samples: list[dict[str, Any]]
    """As TRL's rows take them."""
    tokens: float
    staleness: Staleness
    real_tokens: int
    """Tokens of the conversations that are learned from, each counted once."""


def samples_of(played: Played, version: int, max_staleness: int | None = None) -> list[RolloutSample]:
    """Return the samples of a group that teach something."""
    rows = zip(played.group.trajectories, played.advantages, played.trained, strict=True)
    return [
        stretch.sample(played.number)
        for trajectory, advantages, trained in rows
        for stretch in stretches(trajectory, advantages, trained)
        if stretch.advantage and (max_staleness is None or version - stretch.version <= max_staleness)
    ]


def step_samples(groups: Sequence[Played], step: int, max_staleness: int, loss: str, longest: int) -> StepSamples:
    """Return what a step learns from.

    Args:
        groups: The groups of the step.
        step: Number of completed steps.
        max_staleness: Older tokens lose their loss; their rewards still count in their group.
        loss: One of `settings.LOSSES`: `dapo` weighs all tokens alike, `grpo` all episodes; `dr_grpo` divides by
            `longest`.
        longest: Longest conversation, in tokens.
    """
    staleness, samples, counts, real, spare = Staleness(), [], [], 0, []
    for played in groups:
        for trajectory, advantages, trained in zip(
            played.group.trajectories, played.advantages, played.trained, strict=True
        ):
            kept = []
            for stretch in stretches(trajectory, advantages, trained):
                age = step - stretch.version
                spare = spare or [_row(stretch.sample(played.number, 0.0), step)]
                staleness.add(stretch, age, is_lost=age > max_staleness)
                if age <= max_staleness:
                    kept.append(stretch)
            if count := sum(stretch.count for stretch in kept):
                counts.append(count)
            weight = 1.0 / count if loss == "grpo" and count else 1.0
            learned = [stretch for stretch in kept if stretch.advantage]
            samples += [_row(stretch.sample(played.number, weight), step) for stretch in learned]
            real += max((len(sample["input_ids"]) for sample in samples[len(samples) - len(learned) :]), default=0)
    if not samples and spare:  # no group has differences: an update without a gradient
        samples, real = spare, len(spare[0]["input_ids"])
    divisor = {"dapo": sum(counts), "grpo": len(counts), "dr_grpo": len(counts) * longest}[loss]
    return StepSamples(samples, float(max(divisor, 1)), staleness, real)


def _row(sample: RolloutSample, step: int) -> dict[str, Any]:
    names = ("input_ids", "completion_mask", "old_log_probs", "advantage", "group_id", "metrics")
    return {**{name: getattr(sample, name) for name in names}, "is_fresh": sample.model_version == step}


def packed(step: StepSamples, processes: int, budget: int) -> PackedStep:
    """Return a step as micro-batches with one row of at most `budget` tokens for each process.

    Groups stay together, since their conversations share their prompts.
    """
    shares: list[list[dict[str, Any]]] = [[] for _ in range(processes)]
    loads = [0] * processes
    groups = [list(members) for _, members in groupby(step.samples, key=lambda sample: sample["group_id"])]
    for members in sorted(groups, key=_length, reverse=True):
        place = loads.index(min(loads))
        shares[place] += members
        loads[place] += _length(members)
    rows = [_rows(share, budget) for share in shares]
    # No process may be without a row, since they learn in lockstep: a sample without advantage fills a gap.
    filler = {**min(step.samples, key=lambda sample: len(sample["input_ids"])), "advantage": 0.0}
    longest = max(map(len, rows))
    filled = [[*own, *(_rows([filler], budget) * (longest - len(own)))] for own in rows]
    return PackedStep(list(zip(*filled, strict=True)), step.tokens)


def _length(samples: Sequence[dict[str, Any]]) -> int:
    return sum(len(sample["input_ids"]) for sample in samples)


def _rows(samples: Sequence[dict[str, Any]], budget: int) -> list[TreeRow]:
    rows: list[TreeRow] = []
    for sample in samples:
        if not rows or not rows[-1].fits(sample, budget):
            rows.append(TreeRow())
        rows[-1].add(sample)
    return rows
