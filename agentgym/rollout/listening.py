"""`Listener`: comments on the turns of an episode in addition to the environment, such as a simulated user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agentgym.engine.spaces import Action
from agentgym.messages import Message
from agentgym.rollout.workers.base import EpisodeOpening


class Listener(Protocol):
    """Listens to one episode."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts to add to `Trajectory.counts`."""
        ...

    @property
    def usage(self) -> Mapping[str, float]:
        """Usage to add to `Trajectory.usage`."""
        ...

    async def after(self, opening: EpisodeOpening, action: Action, observation: list[Message]) -> list[Message]:
        """Return the messages that follow the observation of a turn that did not end the episode."""
        ...
