"""Guess the number: the smallest complete environment, and the one to copy when writing your own."""

from __future__ import annotations

from functools import cache

from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.core.task import GeneratedTasks, Task, split_of
from agentgym.core.toolset import tool

HIGHEST = {1: 10, 2: 100, 3: 1000}
"""Largest number that may be hidden, by difficulty."""

_SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}


@cache
def _pairs(split: str) -> list[tuple[int, int]]:
    """Return the (difficulty, number) pairs that belong to `split`."""
    pairs = [(d, n) for d, highest in HIGHEST.items() for n in range(1, highest + 1)]
    return [pair for pair in pairs if split_of(f"{pair}", _SHARES) == split]


def _task(split: str, index: int) -> Task:
    """Return the task of the `index`-th pair; indexes beyond the last pair repeat them."""
    mine = _pairs(split)
    difficulty, number = mine[(index * 7919) % len(mine)]
    return Task(
        id=f"guess/{split}/{index}",
        split=split,
        prompt=f"I have chosen a whole number from 1 to {HIGHEST[difficulty]}. Find it.",
        difficulty=difficulty,
        data={"highest": HIGHEST[difficulty]},
        gold={"number": number},
    )


class GuessEnv(Env):
    """Find a hidden number by asking whether it is higher or lower.

    Task: a number from 1 to 10, 100 or 1000 (difficulty 1 to 3).
    Tools: `guess(number)`.
    Observation: whether the hidden number is higher or lower.
    Reward: `outcome` 1 when found; `format` for readable actions, paid only then.
    Episode end: the number is found, or 12 turns have passed.
    Version history: v0, first version.
    """

    channels = {
        OUTCOME: Channel("1 if the number was found"),
        "format": Channel("1 if the action parsed and its arguments were valid", per_turn=True, cheap=True),
    }
    scheme = Scheme(
        weights={OUTCOME: 1.0, "format": 0.1},
        gates=(Gate(on=OUTCOME, at_least=1.0, opens=("format",)),),
        averaged=frozenset({"format"}),
    )
    states_turns = True
    max_turns = 12

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        """Return the tasks: every (range, number) pair belongs to one split."""
        return GeneratedTasks("guess", _task, dict.fromkeys(_SHARES))

    @tool
    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: Your guess.
        """
        highest, hidden = self.task.data["highest"], self.task.gold["number"]
        if not 1 <= number <= highest:
            raise ToolError(f"The number is between 1 and {highest}; {number} is not.")
        if number == hidden:
            self.reward(OUTCOME, 1.0)
            self.finish(Reason.SOLVED)
            return "Correct."
        return "It is higher." if number < hidden else "It is lower."

    def solution(self, task: Task) -> Solution:
        """Halve the range until the number is found."""
        low, high = 1, task.data["highest"]
        while True:
            middle = (low + high) // 2
            observation = yield ToolCall("guess", {"number": middle})
            low, high = (middle + 1, high) if "higher" in text_of(observation[-1]) else (low, middle - 1)
