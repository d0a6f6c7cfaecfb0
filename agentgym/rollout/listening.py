"""`Listener`: somebody beside the environment who answers to the turns of an episode, such as a user with feedback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agentgym.engine.spaces import Action
from agentgym.messages import Message
from agentgym.rollout.workers.base import Opening


class Listener(Protocol):
    """Listens to one episode."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What to add to `Trajectory.counts`."""
        ...

    @property
    def usage(self) -> Mapping[str, float]:
        """What to add to `Trajectory.usage`."""
        ...

    async def after(self, opening: Opening, action: Action, observation: list[Message]) -> list[Message]:
        """Return the messages that follow the observation of a turn that did not end the episode."""
        ...
