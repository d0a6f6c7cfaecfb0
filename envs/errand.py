"""Take a parcel to its house, past people who like to talk: small rewards at once, the goal only after some work.

A small world for one question: what does an agent learn whose immediate rewards can be had without reaching the goal?
Paid directly it learns to chat until the time is up; behind a gate on the goal it learns the errand (Gated Reward
Accumulation, arXiv 2508.10548).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal, get_args

from agentgym.choices import one_of, some_of
from agentgym.endings import Reason
from agentgym.env import Env
from agentgym.errors import ToolError, UsageError
from agentgym.messages import ToolCall
from agentgym.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.steps import Solution
from agentgym.task import GeneratedTasks, Task, TaskSource, split_of
from agentgym.toolset import tool

PEOPLE = {1: 3, 2: 5, 3: 8}
"""Difficulty to the number of people in town."""

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon", "Kim", "Leo")
HOUSES = ("Hill", "Mill", "Lake", "Park", "Rose", "Ford", "Wood", "Farm", "Gate", "Glen", "Moor", "Dale")

_SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
_MOST_CHATS = 5

Style = Literal["direct", "chatty"]


class ErrandEnv(Env):
    """Fetch somebody's parcel and take it to their house.

    Task: whose parcel to deliver, of the 3, 5 or 8 people in town (difficulty 1 to 3).
    Tools: `fetch(name)`, which tells the house; `deliver(house)`; `chat()`.
    Observation: what was said or done.
    Reward: `outcome` 1 for the right parcel in the right house, and 0.2 for having fetched the right parcel. Each chat
        earns 0.8, in solved episodes only; without that gate (scheme `"d_ra"`) chatting all day pays 6.4, which is more
        than any errand does.
    Episode end: a parcel is delivered, or 8 turns are over.
    Version history: v0, first version.

    Args:
        difficulty: Level or levels, 1 to 3; all if not given.
        solution_style: What `solution` does: `"direct"` fetches and delivers, `"chatty"` chats up to five times first.
        tasks: A task source of your own, instead of the choice above.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = {
        OUTCOME: Channel("1 if the right parcel is in the right house"),
        "fetched": Channel("1 if the right parcel was fetched"),
        "chatted": Channel("1 for a chat", per_turn=True, cheap=True),
        "delivered": Channel("1 if some parcel was delivered", cheap=True),
    }
    scheme = Scheme(
        weights={OUTCOME: 1.0, "fetched": 0.2, "chatted": 0.8},
        gates=(Gate(on=OUTCOME, at_least=1.0, opens=("chatted",)),),
    )
    schemes = {"g_ra": scheme}
    max_turns = 8

    def __init__(
        self,
        *,
        difficulty: int | Sequence[int] | None = None,
        solution_style: Style = "direct",
        tasks: TaskSource | None = None,
        **kwargs: Any,
    ):
        if tasks is not None and difficulty is not None:
            raise UsageError("tasks=... was given, so difficulty cannot be chosen too; give one or the other")
        super().__init__(tasks=errands(difficulty) if tasks is None else tasks, **kwargs)
        self.solution_style: Style = one_of("solution_style", solution_style, get_args(Style))
        self._carried: str | None = None

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        """Return errands of all levels."""
        return errands()

    def start(self, task: Task) -> None:
        """Begin with empty hands."""
        self._carried = None
        self._fetched = False

    @tool
    def fetch(self, name: str) -> str:
        """Fetch a parcel from the post office; it says where it goes. A parcel you already carry goes back.

        Args:
            name: Whose parcel.
        """
        self._carried = _found(name, self.task.data["houses"], "There is no parcel for")
        if self._carried == self.task.gold["name"] and not self._fetched:
            self._fetched = True
            self.reward("fetched", 1.0)
        return f"It goes to {self.task.data['houses'][self._carried]} House."

    @tool
    def deliver(self, house: str) -> str:
        """Leave the parcel at a house. This ends the episode.

        Args:
            house: The house's name, without the word House.
        """
        there = _found(house, HOUSES, "There is no house called")
        if self._carried is None:
            raise ToolError("You carry no parcel. Fetch one first.")
        right = self._carried == self.task.gold["name"] and there == self.task.gold["house"]
        self.reward("delivered", 1.0)
        self.reward(OUTCOME, float(right))
        self.finish(Reason.SOLVED if right else Reason.ANSWERED)
        return "Delivered."

    @tool
    def chat(self) -> str:
        """Chat with whoever passes by."""
        self.reward("chatted", 1.0)
        return "How nice."

    def solution(self, task: Task) -> Solution:
        """Chat, in the style that does, then fetch and deliver."""
        dice = random.Random(task.id)
        for _ in range(dice.randint(0, _MOST_CHATS) if self.solution_style == "chatty" else 0):
            yield ToolCall("chat")
        yield ToolCall("fetch", {"name": task.gold["name"]})
        yield ToolCall("deliver", {"house": task.gold["house"]})


def errands(difficulty: int | Sequence[int] | None = None) -> GeneratedTasks:
    """Return errands of some levels. What an errand says decides its split, so that no two splits share one."""
    return GeneratedTasks("errand", partial(_errand, some_of("difficulty", difficulty, PEOPLE)), dict.fromkeys(_SHARES))


def _errand(levels: tuple[int, ...], split: str, index: int) -> Task:
    level = levels[index % len(levels)]
    dice = random.Random(f"errand/{level}/{split}/{index}")
    while True:
        names, houses = (dice.sample(words, PEOPLE[level]) for words in (NAMES, HOUSES))
        whose = dice.randrange(len(names))
        if split_of(f"{names} {houses} {whose}", _SHARES) == split:
            break
    return Task(
        id=f"errand/{split}/{index}",
        split=split,
        prompt=f"In town: {', '.join(names)}. Take the parcel of {names[whose]} to the right house.",
        difficulty=level,
        data={"houses": dict(zip(names, houses, strict=True))},
        gold={"name": names[whose], "house": houses[whose]},
    )


def _found(word: str, words: Iterable[str], missing: str) -> str:
    """Return a word of this town as it is written there. Raises `ToolError` if it is not among `words`."""
    written = {known.lower(): known for known in words}
    found = written.get(word.strip().lower())
    if found is None:
        raise ToolError(f"{missing} {word.strip()[:20]!r} here. Choose from: {', '.join(written.values())}.")
    return found
