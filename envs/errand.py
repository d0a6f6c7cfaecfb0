"""Deliver a parcel in a town of chatty people: small rewards are immediate, the goal takes several steps.

This small world shows what an agent learns if it can earn immediate rewards without reaching the goal. If they are paid
directly, it learns to chat until its turns run out; behind a gate on the goal, it learns the errand (Gated Reward
Accumulation, arXiv 2508.10548).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal, get_args

from agentgym.base.choices import one_of, some_of
from agentgym.base.errors import ToolError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.core.task import GeneratedTasks, Task, TaskSource, split_of
from agentgym.core.toolset import tool

PEOPLE = {1: 3, 2: 5, 3: 8}
"""Number of people in town, by difficulty."""

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon", "Kim", "Leo")
HOUSES = ("Hill", "Mill", "Lake", "Park", "Rose", "Ford", "Wood", "Farm", "Gate", "Glen", "Moor", "Dale")

_SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
_MAX_CHATS = 5

Style = Literal["direct", "chatty"]


class ErrandEnv(Env):
    """Fetch somebody's parcel and take it to their house.

    Task: whose parcel to deliver, of the 3, 5 or 8 people in town (difficulty 1 to 3).
    Tools: `fetch(name)`, which returns the address; `deliver(house)`; `chat()`.
    Observation: one short sentence about the result of the action.
    Reward: `outcome` 1 for the right parcel in the right house, and 0.2 for having fetched the right parcel. Chats earn
        0.8 altogether, in solved episodes only, however many there were; without that gate (scheme `"d_ra"`) each earns
        0.8, so that chatting all day pays 6.4, more than any errand.
    Episode end: a parcel is delivered, or 8 turns have passed.
    Version history: v0, first version.

    Args:
        difficulty: Level or levels, 1 to 3; all if not given.
        solution_style: Style of `solution`: `"direct"` fetches and delivers, `"chatty"` chats up to five times first.
        tasks: A custom task source, instead of the choice above.
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
        in_full=frozenset({"chatted"}),
    )
    schemes = {"g_ra": scheme}
    states_turns = True
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
        """Start without a parcel."""
        self._carried = None
        self._fetched = False

    @tool
    def fetch(self, name: str) -> str:
        """Fetch a parcel from the post office and read its address. A parcel that you already carry is returned.

        Args:
            name: Name of the recipient.
        """
        self._carried = _look_up(name, self.task.data["houses"], "There is no parcel for")
        if self._carried == self.task.gold["name"] and not self._fetched:
            self._fetched = True
            self.reward("fetched", 1.0)
        return f"It goes to {self.task.data['houses'][self._carried]} House."

    @tool
    def deliver(self, house: str) -> str:
        """Leave the parcel at a house. This ends the episode.

        Args:
            house: Name of the house, without the word House.
        """
        destination = _look_up(house, HOUSES, "There is no house called")
        if self._carried is None:
            raise ToolError("You carry no parcel. Fetch one first.")
        right = self._carried == self.task.gold["name"] and destination == self.task.gold["house"]
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
        """Fetch and deliver the parcel; in the style `"chatty"`, chat first."""
        dice = random.Random(task.id)
        for _ in range(dice.randint(0, _MAX_CHATS) if self.solution_style == "chatty" else 0):
            yield ToolCall("chat")
        yield ToolCall("fetch", {"name": task.gold["name"]})
        yield ToolCall("deliver", {"house": task.gold["house"]})


def errands(difficulty: int | Sequence[int] | None = None) -> GeneratedTasks:
    """Return errands of some levels. The content of an errand decides its split, so no two splits share one."""
    return GeneratedTasks("errand", partial(_errand, some_of("difficulty", difficulty, PEOPLE)), dict.fromkeys(_SHARES))


def _errand(levels: tuple[int, ...], split: str, index: int) -> Task:
    level = levels[index % len(levels)]
    dice = random.Random(f"errand/{level}/{split}/{index}")
    while True:
        names, houses = (dice.sample(words, PEOPLE[level]) for words in (NAMES, HOUSES))
        recipient = dice.randrange(len(names))
        if split_of(f"{names} {houses} {recipient}", _SHARES) == split:
            break
    return Task(
        id=f"errand/{split}/{index}",
        split=split,
        prompt=f"In town: {', '.join(names)}. Take the parcel of {names[recipient]} to the right house.",
        difficulty=level,
        data={"houses": dict(zip(names, houses, strict=True))},
        gold={"name": names[recipient], "house": houses[recipient]},
    )


def _look_up(word: str, words: Iterable[str], missing: str) -> str:
    """Return the entry of `words` that equals `word` regardless of case. Raises `ToolError` if no entry does."""
    spelling = {entry.lower(): entry for entry in words}
    entry = spelling.get(word.strip().lower())
    if entry is None:
        raise ToolError(f"{missing} {word.strip()[:20]!r} here. Choose from: {', '.join(spelling.values())}.")
    return entry
