"""`JudgedEnv`: what the environments for MCPMark's tasks share, whose verdict is that of the task's own script."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from agentgym.endings import Reason
from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.rewards import OUTCOME, Channel
from agentgym.task import Task, TaskSource


class JudgedEnv(Env, ABC):
    """Base class of environments whose tasks are folders with a script that judges the final state, once.

    A subclass makes the state of an episode in `prepare`, frees it in `release`, and judges it in `accepts`.
    """

    channels = {OUTCOME: Channel("1 if the task's own script accepts the result")}
    states_turns = True
    max_turns = 100
    needs: ClassVar[str] = "folder=..."
    """The arguments without which there are no tasks."""

    harmless_arguments = Env.harmless_arguments | {"split_by", "strict"}
    _verdict: bool | None = None

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Raise `UsageError`: the tasks are folders."""
        raise UsageError(f"this environment has no tasks of its own; pass {cls.needs}")

    @abstractmethod
    def prepare(self, task: Task) -> None:
        """Make the state that a task begins with."""

    @abstractmethod
    def accepts(self) -> bool:
        """Return whether the task's script accepts the final state. Raises `InfrastructureError` if it cannot tell."""

    def start(self, task: Task) -> str:
        """Make the state of the episode."""
        self.release()
        self._verdict = None
        self.prepare(task)
        return task.prompt

    def respond(self, text: str) -> str:
        """End the episode: the work is done."""
        self.finish(Reason.SOLVED if self._accepted() else Reason.ANSWERED)
        return "Thank you."

    def grade(self) -> Mapping[str, float]:
        """Return what the task's script says, and free the state."""
        accepted = self._accepted()
        self.release()
        return {OUTCOME: float(accepted)}

    def _accepted(self) -> bool:
        """Return the verdict; the script runs once."""
        if self._verdict is None:
            self._verdict = self.accepts()
        return self._verdict
