"""`Simulator`: a simulated user who watches an episode and comments in plain language (MINT, arXiv 2309.10691)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from agentgym.feedback.scene import FeedbackContext


@dataclass(frozen=True)
class Remark:
    """A simulator's comment."""

    text: str = ""
    """Empty if it has nothing to say."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Usage that an endpoint reports for it."""


class Simulator(Protocol):
    """Gives feedback. One object serves many concurrent episodes, so it must be stateless."""

    @property
    def name(self) -> str:
        """Name in reports, with every setting that changes its comments."""
        ...

    @property
    def sees_gold(self) -> bool:
        """Whether it sees the gold; its comments are then checked for leaks."""
        ...

    async def remark(self, scene: FeedbackContext, key: str) -> Remark:
        """Comment on the last turn.

        Args:
            scene: The episode so far.
            key: Identifies the request; seeds are derived from it.

        Raises:
            InfrastructureError: The simulator broke; the episode fails and is retried.
        """
        ...
