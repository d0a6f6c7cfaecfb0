"""Failures of rollouts: their components, the waits between retries, and the breaker that stops during an outage.

An infrastructure failure never becomes an observation or a reward, and never goes missing: it is counted by component.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.base.retries import doubled_s
from agentgym.rollout.jobs import PlayedGroup
from agentgym.rollout.limits import check_whole


class Component(StrEnum):
    """The part of a rollout that failed."""

    MAKING = "making"
    """The environment could not be made."""
    RESET = "reset"
    STEP = "step"
    """A turn of the environment, its tools and its grading."""
    POLICY = "policy"
    FEEDBACK = "feedback"
    """The simulated user who comments on the turns."""
    WORKER = "worker"
    """The process or node that ran the environment died."""
    TASK = "task"
    """The task itself is broken."""
    SCRIPT = "script"
    """The scripted player failed."""


class WorkerLost(InfrastructureError):
    """The process or node that ran an environment died, not necessarily because of the episode."""


class Outage(InfrastructureError):
    """Most tries fail, so something must be down. The message names the components."""


@dataclass(frozen=True)
class Backoff:
    """How long to wait before another try: doubling, jittered, bounded."""

    first_s: float = 0.05
    most_s: float = 1.0
    jitter: float = 0.5
    """Share of the wait that is random, so that retries of many episodes spread out."""

    def __post_init__(self) -> None:
        if not (0 <= self.first_s < inf and 0 <= self.most_s < inf and 0 <= self.jitter <= 1):
            raise UsageError(f"a backoff needs seconds from 0 and a jitter from 0 to 1, not {self}")

    def wait_s(self, retry: int, draw: random.Random) -> float:
        """Return the seconds to wait before a retry, counted from 1."""
        longest = doubled_s(self.first_s, retry - 1, self.most_s)
        return longest * (1 - self.jitter * draw.random())


@dataclass(frozen=True)
class Breaker:
    """Stops a rollout during an outage."""

    share: float = 0.9
    """The rollout stops at this share of failed tries in the window."""
    window: int = 64
    """Number of latest tries to look at, and the fewest tries before the rollout may stop. If more tries can run at
    once, that many: failed tries often finish first."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or self.window < 1:
            raise UsageError(f"a breaker needs a share above 0 and up to 1 and a window from 1, not {self}")


@dataclass(frozen=True)
class Failures:
    """How a rollout handles failures."""

    backoff: Backoff = field(default_factory=Backoff)
    fail_fast: bool = False
    """Stop at the first episode that failed after its retries."""
    at_least: int = 1
    """Trajectories of a group that must not fail for the group to be used. Its baseline is computed over those."""
    breaker: Breaker | None = None
    """Stops the rollout during an outage; `None` never does."""

    def __post_init__(self) -> None:
        check_whole(self, {"at_least": 1})

    def is_usable(self, group: PlayedGroup) -> bool:
        """Whether enough trajectories of a group did not fail (all, if it is smaller than `at_least`)."""
        return len(group.real) >= min(self.at_least, group.group.size)


class Tally:
    """Counts the tries of a rollout and notices an outage."""

    def __init__(self, breaker: Breaker | None = None, at_once: int = 1):
        self.tries = 0
        self.failed: Counter[str] = Counter()
        """Failed tries by component, including those that were retried."""
        self._breaker = breaker
        self._window = 0 if breaker is None else max(breaker.window, at_once)
        self._latest: deque[tuple[str, str] | None] = deque(maxlen=self._window)

    def succeeded(self) -> None:
        """Count a try that did not fail."""
        self.tries += 1
        self._latest.append(None)

    def fails(self, component: Component, error: str) -> None:
        """Count a failed try.

        Raises:
            Outage: The share of failures in the breaker's window has been reached.
        """
        self.tries += 1
        self.failed[component.value] += 1
        if component in (Component.TASK, Component.SCRIPT):
            return  # a broken task or script says nothing about an outage
        self._latest.append((component.value, error))
        if self._breaker is not None and len(self._latest) == self._window:
            failures = [entry for entry in self._latest if entry is not None]
            if len(failures) >= self._breaker.share * len(self._latest):
                raise Outage(_report(failures, len(self._latest)))


def _report(failures: list[tuple[str, str]], of: int) -> str:
    """Return the message of an outage: the failures of each component, and the latest error of the worst one."""
    counts = Counter(component for component, _ in failures)
    worst = counts.most_common(1)[0][0]
    latest = next(error for component, error in reversed(failures) if component == worst)
    parts = ", ".join(f"{component}: {count}" for component, count in counts.most_common())
    return f"outage: {len(failures)} of the last {of} tries failed ({parts}); the latest failure in {worst}: {latest}"
