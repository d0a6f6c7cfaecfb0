"""A task that trainers of numbers learn in minutes: three guesses at a number from 1 to 10.

Chance finds it in three of ten episodes, halving in seven.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from agentgym.envs.guess import GuessEnv
from agentgym.interop.discrete import DiscreteCalls
from agentgym.messages import Message, ToolCall, calls_of, text_of
from agentgym.task import Task, TaskList

HIGHEST, TURNS = 10, 3


def guessing() -> DiscreteCalls:
    """Return `guess` with the easy tasks of training, for a trainer of numbers."""
    calls = [ToolCall("guess", {"number": number}) for number in range(1, HIGHEST + 1)]
    bounds = spaces.Box(0.0, 1.0, (2 * HIGHEST,), np.float32)
    return DiscreteCalls(lambda: GuessEnv(dialect="native", tasks=easy_tasks(), max_turns=TURNS), calls, seen, bounds)


def seen(messages: Sequence[Message]) -> Any:
    """Return the lowest and the highest number that the answers leave, each as one of ten flags."""
    low, high, guessed = 1, HIGHEST, 0
    for message in messages[1:]:
        if message.get("role") == "assistant":
            guessed = calls_of(message)[0].arguments["number"]
        elif "higher" in text_of(message):
            low = max(low, guessed + 1)
        elif "lower" in text_of(message):
            high = min(high, guessed - 1)
    flags = np.zeros(2 * HIGHEST, np.float32)
    flags[[min(low, HIGHEST) - 1, HIGHEST + max(high, 1) - 1]] = 1.0
    return flags


def easy_tasks() -> TaskList:
    """Return a task for each number, for `GuessEnv`."""
    prompt = f"I have chosen a whole number from 1 to {HIGHEST}. Find it."
    data = {"highest": HIGHEST}
    return TaskList(
        Task(f"easy/{number}", "train", prompt, data=data, gold={"number": number}) for number in range(1, HIGHEST + 1)
    )
