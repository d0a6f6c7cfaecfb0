"""`Simulator`: a simulated user who watches an episode and comments in plain language (MINT, arXiv 2309.10691)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from agentgym.feedback.scene import Scene


@dataclass(frozen=True)
class Remark:
    """What a simulator said."""

    text: str = ""
    """Empty if it has nothing to say."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """What an endpoint reports for it."""


class Simulator(Protocol):
    """Gives feedback. One object serves many episodes at once, so it keeps nothing of them."""

    @property
    def name(self) -> str:
        """Its name in reports, with every setting that changes what it says."""
        ...

    @property
    def sees_gold(self) -> bool:
        """Whether it is shown the gold; what it says is then checked for it."""
        ...

    async def remark(self, scene: Scene, key: str) -> Remark:
        """Say something about the last turn.

        Args:
            scene: The episode so far.
            key: Names the question; seeds follow from it.

        Raises:
            InfrastructureError: The simulator broke; the episode fails and is tried again.
        """
        ...
