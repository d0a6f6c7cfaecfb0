"""An environment that a model of a hundred thousand weights learns in a minute, all but what it has not seen."""

from __future__ import annotations

from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool

COLOURS = ("red", "green", "blue", "white", "black", "yellow")
PLACES = ("left", "right", "above")


def _task(split: str, index: int) -> Task:
    """Boxes of the last two colours are only in the split `test`."""
    colours = COLOURS[:-2] if split == "train" else COLOURS
    colour, place = colours[index % len(colours)], PLACES[index // len(colours) % len(PLACES)]
    gold = {"colour": colour, "place": place}
    return Task(f"boxes/{split}/{index}", split, f"{split} {index}: put the {colour} box {place}.", gold=gold)


class BoxesEnv(Env):
    """Take a box of some colour, then put it somewhere."""

    max_turns = 4

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("boxes", _task, {"train": 200, "test": len(COLOURS) * len(PLACES)})

    def start(self, task: Task) -> None:
        self.taken = ""

    @tool
    def take(self, colour: str) -> str:
        """Take a box.

        Args:
            colour: Which one.
        """
        self.taken = colour
        return f"You have a {colour} box."

    @tool
    def put(self, place: str) -> str:
        """Put the box down.

        Args:
            place: Where.
        """
        self.reward(OUTCOME, float(self.task.gold == {"colour": self.taken, "place": place}))
        self.finish(Reason.ANSWERED)
        return "It is there."

    def solution(self, task: Task) -> Solution:
        yield ToolCall("take", {"colour": task.gold["colour"]})
        yield ToolCall("put", {"place": task.gold["place"]})
