"""`Scene`: what a simulated user sees of an episode when it gives feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.engine.actions import text_in
from agentgym.engine.spaces import Action
from agentgym.messages import Message, text_of
from agentgym.task import Task


@dataclass(frozen=True)
class Scene:
    """An episode after a turn that did not end it."""

    task: Task
    """With the gold, for those who are told not to reveal it."""
    opening: Sequence[Message]
    turns: Sequence[tuple[Action, Sequence[Message]]]
    """Each action, and the observation with the feedback so far."""
    max_turns: int

    @property
    def turns_left(self) -> int:
        """Number of turns that are left."""
        return self.max_turns - len(self.turns)

    @property
    def since(self) -> str:
        """What the policy said and was shown after the opening."""
        return "\n".join(f"{text_in(action)}\n{shown(observation)}" for action, observation in self.turns)


def shown(observation: Sequence[Message]) -> str:
    """Return the text of an observation."""
    return "\n".join(text_of(message) for message in observation)
