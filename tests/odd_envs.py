"""An environment whose hooks return and raise values that are neither text nor JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym import Env, Reason, Task, TaskList, ToolCall, tool
from agentgym.core.engine.steps import Solution

ODD = "tests.odd_envs:OddEnv"


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _looped() -> Any:
    values: list[Any] = []
    values.append(values)
    return values


VALUES: Mapping[str, Callable[[], Any]] = {
    "nan": lambda: float("nan"),
    "infinity": lambda: float("-inf"),
    "many digits": lambda: 10**6_000,
    "deep": lambda: _nested(3_000),
    "looped": _looped,
    "object": object,
    "no Unicode": lambda: "\ud800",
    "bytes": lambda: b"\xff\x00",
    "keys": lambda: {1: 2, (1, 2): 3, None: 4},
}


class OddEnv(Env):
    """Returns, ends with, or raises a value that the model names."""

    max_turns = 50

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.odd = ""

    @classmethod
    def default_tasks(cls) -> TaskList:
        return TaskList([Task(f"odd/{split}/0", split, f"Be odd, {split}.") for split in ("train", "test")])

    def start(self, task: Task) -> Any:
        self.odd = ""

    @tool
    def end(self, odd: str) -> str:
        """End the episode with a detail.

        Args:
            odd: The name of the detail's value.
        """
        self.odd = odd
        self.reward("outcome", 1.0)
        self.finish(Reason.SOLVED)
        return "ended"

    def details(self) -> dict[str, Any]:
        return {"fine": 1, "odd": VALUES[self.odd]()} if self.odd else {}

    def solution(self, task: Task) -> Solution:
        yield ToolCall("end", {"odd": "bytes"})
