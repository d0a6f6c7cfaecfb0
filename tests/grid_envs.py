"""A grid with a cost for each move, as in many published environments, and variants of the cost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Literal

from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool

SIZE = 5
Way = Literal["up", "right", "down", "left"]
WAYS: dict[str, tuple[int, int]] = {"up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0)}
Place = tuple[int, int]
GOAL: Place = (SIZE - 1, SIZE - 1)


def way_to_goal(holes: set[Place]) -> list[str] | None:
    """Return the shortest path from the first field to the last one, or `None` if the holes block every path."""
    ways: dict[Place, list[str]] = {(0, 0): []}
    for place in (queue := [(0, 0)]):
        for name, after in _moves(place):
            if after not in ways and after not in holes:
                ways[after] = [*ways[place], name]
                queue.append(after)
    return ways.get(GOAL)


def _moves(place: Place) -> Iterator[tuple[str, Place]]:
    for name, (right, down) in WAYS.items():
        after = place[0] + right, place[1] + down
        if min(after) >= 0 and max(after) < SIZE:
            yield name, after


def lake_task(split: str, index: int) -> Task:
    """A lake whose holes occur in no other split."""
    rng = random.Random(f"lake {split} {index}")
    fields = [(x, y) for x in range(SIZE) for y in range(SIZE) if (x, y) not in ((0, 0), GOAL)]
    holes: set[Place] = set()
    while not holes or (way := way_to_goal(holes)) is None:
        holes = set(rng.sample(fields, 6))
    data = {"holes": sorted([x, y] for x, y in holes), "lake": f"{split} {index}"}
    rows = ["".join("H" if (x, y) in holes else "." for x in range(SIZE)) for y in range(SIZE)]
    prompt = "Walk from the upper left field to the lower right one. H is a hole.\n" + "\n".join(rows)
    return Task(f"lake/{split}/{index}", split, prompt, data=data, gold={"way": way})


class LakeEnv(Env):
    """Walk over a frozen lake: 1 at the goal, 0.01 less for each move."""

    channels = {
        OUTCOME: Channel("1 if the goal was reached"),
        "move": Channel("a move", low=-1.0, high=0.0, per_turn=True),
    }
    scheme = Scheme({OUTCOME: 1.0, "move": 0.01})
    max_turns = 20

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("lake", lake_task, {"train": 200, "test": 200})

    def start(self, task: Task) -> None:
        self.place: Place = (0, 0)

    @tool
    def move(self, way: Way) -> str:
        """Go to a field beside this one.

        Args:
            way: Where to.
        """
        self.reward("move", -1.0)
        after = dict(_moves(self.place)).get(way)
        if after is None:
            raise ToolError(f"The lake ends here; you cannot go {way}.")
        self.place = after
        if list(after) in self.task.data["holes"]:
            self.finish(Reason.ANSWERED)
            return "You fell into a hole."
        if after == GOAL:
            self.reward(OUTCOME, 1.0)
            self.finish(Reason.SOLVED)
        return f"You are in column {after[0] + 1}, row {after[1] + 1}."

    def solution(self, task: Task) -> Solution:
        for way in task.gold["way"]:
            yield ToolCall("move", {"way": way})


class GatedLakeEnv(LakeEnv):
    """Charges for moves only if the goal was reached."""

    scheme = Scheme({OUTCOME: 1.0, "move": 0.01}, gates=(Gate(on=OUTCOME, at_least=1.0, opens=("move",)),))


class FreeLookLakeEnv(LakeEnv):
    """Charges for moves, but not for looking around for ever."""

    @tool
    def look(self) -> str:
        """Look where you are."""
        return f"You are in column {self.place[0] + 1}, row {self.place[1] + 1}."


class PaidRestLakeEnv(LakeEnv):
    """Charges for moves, and pays those who give up."""

    channels = {**LakeEnv.channels, "rest": Channel("1 for giving up")}
    scheme = Scheme({OUTCOME: 1.0, "move": 0.01, "rest": 0.1})

    @tool
    def give_up(self) -> str:
        """End the walk."""
        self.reward("rest", 1.0)
        self.finish(Reason.GAVE_UP)
        return "You went home."


class MeanCostLakeEnv(LakeEnv):
    """Charges the mean cost of a turn, which free turns without a move reduce."""

    scheme = Scheme({OUTCOME: 1.0, "move": 0.01}, averaged=frozenset({"move"}))
