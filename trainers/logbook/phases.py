"""The time of a training step, divided among its phases, and the speed of each.

The seconds of all phases add up to those of the step: each moment counts for the innermost running phase, and for
`idle` while none runs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

ROLLOUTS, LEARN, SYNC, DIAGNOSTICS, IDLE = "rollouts", "learn", "sync", "diagnostics", "idle"
"""Waiting for trajectories; updating the weights; passing them to an engine; measuring; the rest, such as saving."""
GENERATE, TOOLS = "generate", "tools"
"""The parts of `ROLLOUTS` with and without a trajectory that waits for the policy."""
PHASES = (GENERATE, TOOLS, LEARN, SYNC, DIAGNOSTICS, IDLE)
"""The phases in the log."""


class PhaseClock:
    """Measures the seconds of phases, which may contain each other.

    Args:
        now: Returns the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter):
        self._now = now
        self._since = now()
        self._running: list[str] = []
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def begin(self, phase: str) -> None:
        """Start a phase within the running one."""
        self._count()
        self._running.append(phase)

    def end(self) -> None:
        """End the phase that began last."""
        self._count()
        self._running.pop()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time within this context for a phase."""
        self.begin(name)
        try:
            yield
        finally:
            self.end()

    def lap(self) -> dict[str, float]:
        """Return the seconds of each phase since the last lap; together, they are the time since then."""
        self._count()
        seconds, self._seconds = dict(self._seconds), defaultdict(float)
        return seconds

    def _count(self) -> None:
        now = self._now()
        self._seconds[self._running[-1] if self._running else IDLE] += now - self._since
        self._since = now


@dataclass(frozen=True)
class Work:
    """The work of a step on all devices."""

    sampled_tokens: int = 0
    learned_tokens: int = 0
    """Tokens of prompts and completions that the weights learn from, counting each pass over the batch."""
    learned_flops: float = 0.0
    """Floating-point operations of learning from these tokens."""
    peak_flops: float | None = None
    """Of all devices per second; `None` if it is not known."""


def phase_metrics(lap: Mapping[str, float], sampler_s: float, work: Work) -> dict[str, float]:
    """Return the metrics of a step: seconds of each phase, tokens per second, and MFU where the peak is known.

    Args:
        lap: Seconds of phases (`PhaseClock.lap`).
        sampler_s: Seconds in which a trajectory waited for the policy. They exceed the seconds of `ROLLOUTS` if
            episodes continue during other phases.
        work: The work of the step.
    """
    rollouts_s = lap.get(ROLLOUTS, 0.0)
    generate_s = min(sampler_s, rollouts_s)
    seconds = {**lap, GENERATE: generate_s, TOOLS: rollouts_s - generate_s}
    metrics = {f"seconds/{phase}": seconds.get(phase, 0.0) for phase in PHASES}
    for phase, tokens in ((GENERATE, work.sampled_tokens), (LEARN, work.learned_tokens)):
        if tokens and seconds.get(phase):
            metrics[f"tokens_per_second/{phase}"] = tokens / seconds[phase]
    if work.peak_flops and work.learned_flops and seconds.get(LEARN):
        metrics["mfu"] = work.learned_flops / (seconds[LEARN] * work.peak_flops)
    return metrics


def shares_text(metrics: Mapping[str, float]) -> str:
    """Return the phases of a step in the order of their time, those below one percent left out, and its MFU."""
    total = sum(metrics[f"seconds/{phase}"] for phase in PHASES) or 1.0
    shares = {phase: metrics[f"seconds/{phase}"] / total for phase in PHASES}
    longest = sorted(shares, key=lambda phase: -shares[phase])
    parts = [f"{phase} {shares[phase]:.0%}" for phase in longest if shares[phase] >= 0.01]
    return ", ".join([*parts, *([f"MFU {metrics['mfu']:.0%}"] if "mfu" in metrics else [])])
