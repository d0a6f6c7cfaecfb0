"""`FeedbackContext`: what a simulated user sees of an episode when it gives feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.engine.actions import text_in
from agentgym.engine.spaces import Action
from agentgym.messages import Message, text_of
from agentgym.task import Task


@dataclass(frozen=True)
class FeedbackContext:
    """An episode after a turn that did not end it."""

    task: Task
    """Includes the gold, which simulators must not reveal."""
    opening: Sequence[Message]
    turns: Sequence[tuple[Action, Sequence[Message]]]
    """Each action so far, with its observation and feedback."""
    max_turns: int

    @property
    def turns_left(self) -> int:
        """Number of remaining turns."""
        return self.max_turns - len(self.turns)

    @property
    def since(self) -> str:
        """The text of the policy's turns and of the observations after the opening."""
        return "\n".join(f"{text_in(action)}\n{observation_text(observation)}" for action, observation in self.turns)


def observation_text(observation: Sequence[Message]) -> str:
    """Return the text of an observation."""
    return "\n".join(text_of(message) for message in observation)
