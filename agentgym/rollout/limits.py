"""`Limits`: the bounds of a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from agentgym.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """Limits of a rollout. Every time limit counts from the start of the work; time in queues does not count."""

    max_new_tokens: int = 512
    """Sampled tokens per turn."""
    max_tokens: int | None = None
    """Sampled tokens per episode (observations do not count); `None` means no limit."""
    generation_timeout_s: float | None = 300.0
    """Seconds for one turn of the policy. A token policy's turn is then cut off: the episode is truncated
    (`generation_time`) and keeps the sampled tokens, because retrying or dropping it would favour short answers. The
    episode of a chat policy fails, since it has no tokens to keep."""
    reset_timeout_s: float | None = 300.0
    """Seconds to make an environment, and seconds to reset it. The episode then fails (`reset_time`)."""
    step_timeout_s: float | None = 300.0
    """Seconds for the environment's side of a turn. The episode then fails (`step_time`)."""
    tool_timeout_s: float | None = None
    """Seconds for a single tool call. The episode then fails (`tool_time`)."""
    episode_timeout_s: float | None = None
    """Seconds for the whole episode, from its reset on. It is then truncated (`time`) at the end of the current turn;
    a token policy's turn is cut off and keeps the sampled tokens."""
    retries: int = 2
    """Number of retries of a failed episode, each on a fresh environment."""
    max_in_flight: int = 256
    """Episodes that run concurrently; fewer if the environment's `max_concurrent` is lower."""
    strict: bool = False
    """Stop at a broken task instead of recording it and continuing."""

    def __post_init__(self) -> None:
        check_whole(self, {"max_in_flight": 1, "retries": 0, "max_new_tokens": 1})
        if self.max_tokens is not None:
            check_whole(self, {"max_tokens": 1})
        for name in (item.name for item in fields(self) if item.name.endswith("_timeout_s")):
            value = getattr(self, name)
            if not (value is None or (isinstance(value, int | float) and value > 0)):
                raise UsageError(f"{name} must be a number of seconds above 0, or None for no limit, not {value!r}")


def check_whole(settings: object, least: Mapping[str, int]) -> None:
    """Raise `UsageError` unless each named setting is a whole number not below its least value."""
    for name, lowest in least.items():
        value = getattr(settings, name)
        if not isinstance(value, int):
            raise UsageError(f"{name} must be a whole number, not {value!r}")
        if value < lowest:
            raise UsageError(f"{name} must be at least {lowest}, not {value}")
