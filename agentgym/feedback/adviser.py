"""`Adviser`: requests feedback during one episode, withholds feedback that reveals the gold, and counts both."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from agentgym.engine.spaces import Action
from agentgym.feedback.leaks import reveals
from agentgym.feedback.scene import FeedbackContext, observation_text
from agentgym.feedback.simulator import Simulator
from agentgym.messages import Message, user
from agentgym.mistakes import has_error
from agentgym.rollout.jobs import Job
from agentgym.rollout.workers.base import EpisodeOpening

When = Literal["turn", "mistake"]
"""Turns that get feedback: all that do not end the episode, or those with an error."""

GIVEN, WITHHELD = "feedback", "feedback_withheld"
"""Counts in `Trajectory.counts`."""


class Adviser:
    """The feedback of one episode.

    Args:
        simulator: Source of the feedback.
        when: Turns that get feedback.
        job: The job being played.
    """

    def __init__(self, simulator: Simulator, when: When, job: Job):
        self._simulator, self._when, self._job = simulator, when, job
        self._turns: list[tuple[Action, list[Message]]] = []
        self.counts: Counter[str] = Counter({GIVEN: 0, WITHHELD: 0})
        self.usage: Counter[str] = Counter()
        """Usage that endpoints report for the feedback, under names prefixed with `feedback_`."""

    async def after(self, opening: EpisodeOpening, action: Action, observation: list[Message]) -> list[Message]:
        """Return the feedback on a turn that did not end the episode: a user message, or an empty list."""
        self._turns.append((action, observation))
        if self._when == "mistake" and not has_error(observation_text(observation)):
            return []
        scene = FeedbackContext(self._job.task, opening.messages, list(self._turns), opening.max_turns)
        key = f"{self._job.seed}/{self._job.id}/feedback{len(self._turns)}"
        remark = await self._simulator.remark(scene, key)
        self.usage.update({f"feedback_{name}": value for name, value in remark.usage.items()})  # type: ignore[arg-type]
        if not remark.text:
            return []
        if self._simulator.sees_gold and reveals(remark.text, self._job.task.gold, scene.since):
            self.counts[WITHHELD] += 1
            return []
        self.counts[GIVEN] += 1
        messages = [user(remark.text)]
        self._turns[-1] = action, [*observation, *messages]
        return messages
