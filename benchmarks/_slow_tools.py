"""The workload of `rollouts_vs_trl_loop`: episodes of 2 to 6 turns whose tool is slow, now and then very slow.

The same tasks as an environment of ours and as one for TRL. Small models write no calls by themselves, so both sides
read every turn as a call of the tool until the task's turns are used up; the last turn is the answer.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from itertools import count
from typing import Any

from agentgym import Env, GeneratedTasks, Reason, Task, ToolCall, tool
from agentgym.core.dialects import Parsed
from agentgym.core.messages import Message, tool_result, user
from agentgym.core.toolset import Toolset

EPISODES = 64
SLOW_S, SLOW_SHARE, LATENCY_S = 2.0, 0.05, (0.02, 0.12)
"""One call in twenty takes 2 s, the others 20 to 120 ms."""

_LEFT = re.compile(r"Calls left: (\d+)")
_WORDS = ("harbour", "lantern", "ledger", "copper", "north", "seven", "granite", "market", "winter", "signal")


def turns_of(task: int) -> int:
    return random.Random(f"turns/{task}").randint(2, 6)


def latency_s(task: int, call: int) -> float:
    dice = random.Random(f"latency/{task}/{call}")
    return SLOW_S if dice.random() < SLOW_SHARE else dice.uniform(*LATENCY_S)


def question(task: int) -> str:
    words = " ".join(random.Random(f"question/{task}").choices(_WORDS, k=12))
    return f"Find out what connects these: {words}. Calls left: {turns_of(task) - 1}."


def looked_up(task: int, call: int) -> str:
    """Wait as long as the tool takes; return what it says."""
    time.sleep(latency_s(task, call))
    words = " ".join(random.Random(f"page/{task}/{call}").choices(_WORDS, k=40))
    return f"{words}. Calls left: {turns_of(task) - 2 - call}."


def calls_left(text: str) -> int:
    """Return the number of calls that the latest message of a conversation offers."""
    return int(_LEFT.findall(text)[-1])


class Lookups(Env):
    """Look things up until no call is left, then answer."""

    max_turns = 6

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("lookups", _task, {"train": None})

    def start(self, task: Task) -> None:
        self.calls = 0

    @tool
    def lookup(self, query: str) -> str:
        """Look something up.

        Args:
            query: What to look up.
        """
        task, call = self.task.data["number"], self.calls
        self.calls += 1
        if self.calls == turns_of(task):
            self.finish(Reason.ANSWERED)
            return "Thank you."
        return looked_up(task, call)


class EveryTurnIsACall:
    """A dialect that reads any text as a call of the only tool."""

    name = "every turn is a call"

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        return ""

    def parse(self, text: str, tools: Toolset) -> Parsed:
        return Parsed(calls=(ToolCall("lookup", {"query": text}),))

    def render(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        return calls[0].arguments["query"]

    def result(self, call: ToolCall, content: str) -> Message:
        return tool_result(call, content)

    def problem(self, content: str) -> Message:
        return user(content)


_instances = count()


class TrlLookups:
    """The same for TRL, which makes one instance for each row of a batch, in order."""

    def __init__(self) -> None:
        self._task = next(_instances)
        self._calls = 0

    def reset(self, **row: Any) -> None:
        assert row["number"] == self._task
        self._calls = 0

    def lookup(self, query: str) -> str:
        """Look something up.

        Args:
            query: What to look up.
        """
        call = self._calls
        self._calls += 1
        return looked_up(self._task, call)


def read_turn(tokenizer: Any, ids: Sequence[int], prefix: Sequence[int], tools: Any) -> dict[str, Any]:
    """Stand for TRL's parser of turns: any text is a call as long as one is left."""
    text = tokenizer.decode(ids, skip_special_tokens=True)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls_left(tokenizer.decode(prefix[-24:])):
        message["tool_calls"] = [{"type": "function", "function": {"name": "lookup", "arguments": {"query": text}}}]
    return message


def _task(split: str, index: int) -> Task:
    return Task(f"lookups/{split}/{index}", split, question(index), data={"number": index})
