"""`GradingCheck`: plays the solution of a new instance and a null patch, and checks that both are graded correctly.

Grading runs the hidden tests disguised and among altered ones, which some tests do not survive. They run twice on the
solution: once to calibrate the environment, and once to grade it.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.env import Env
from agentgym.errors import TaskError
from agentgym.messages import ToolCall, assistant
from agentgym.registry import make
from agentgym.task import Task, TaskList
from agentgym.tasks.swe.instance import Instance, to_task

ENVIRONMENT = "agentgym/swe-v0"
SUBMIT = ToolCall("submit")


class GradingCheck:
    """Returns why an instance cannot be graded, or an empty text.

    Args:
        allow_weak: Accept a sandbox that does not confine everything, for packages that are trusted anyway.
    """

    def __init__(self, *, allow_weak: bool = False):
        self._allow_weak = allow_weak

    def __call__(self, instance: Instance, files: Mapping[str, bytes]) -> str:
        """Grade the solution and a null patch of an instance whose repository has these files."""
        source = _OneTask(instance, files)
        solution = ToolCall("apply_patch", {"patch": instance.gold_patch})
        env = make(ENVIRONMENT, tasks=source, allow_weak=self._allow_weak)
        try:
            if _passes(env, source.task, SUBMIT):
                return "a null patch passes"
            if not _passes(env, source.task, solution, SUBMIT):
                return "the solution does not pass"
        except TaskError as error:
            return str(error)
        finally:
            env.close()
        return ""


class _OneTask(TaskList):
    """One instance as a task source that knows its files."""

    def __init__(self, instance: Instance, files: Mapping[str, bytes]):
        self.task = to_task(instance, "train")
        self._files = files
        super().__init__([self.task])

    def tree(self, task: Task) -> Mapping[str, bytes]:
        """Return the files that the policy sees."""
        return self._files


def _passes(env: Env, task: Task, *calls: ToolCall) -> bool:
    env.reset(options={"task": task})
    steps = [env.step(dict(assistant("", [call]))) for call in calls]
    return bool(steps[-1].info["is_success"])
