"""A task small enough to train on in minutes: three guesses at a number from 1 to 10.

Chance finds it in three of ten episodes, halving in seven.
"""

from __future__ import annotations

from typing import Any

from agentgym.task import Task, TaskList

HIGHEST, TURNS = 10, 3
BY_CHANCE, BY_HALVING = 0.3, 0.7


def easy_tasks() -> TaskList:
    """Return a task for each number, for `GuessEnv`."""
    prompt = f"I have chosen a whole number from 1 to {HIGHEST}. Find it."
    data = {"highest": HIGHEST}
    return TaskList(
        Task(f"easy/{number}", "train", prompt, data=data, gold={"number": number}) for number in range(1, HIGHEST + 1)
    )


def arguments() -> dict[str, Any]:
    """Return the arguments of `GuessEnv` that make it so."""
    return {"tasks": easy_tasks(), "max_turns": TURNS}
