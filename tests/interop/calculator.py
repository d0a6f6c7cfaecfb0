"""An environment of verifiers, as its users write them: a calculator, and a rubric that compares the last number."""

from __future__ import annotations

import verifiers.legacy as vf  # pyright: ignore[reportMissingImports]
from datasets import Dataset  # pyright: ignore[reportMissingImports]


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def exact(completion, answer) -> float:
    return float((completion[-1].content or "").strip() == answer)


async def short(completion) -> float:
    return float(len(completion) < 6)


def rows(first: int, count: int) -> Dataset:
    numbers = range(first, first + count)
    return Dataset.from_list([{"question": f"What is {n} + {n + 3}?", "answer": str(2 * n + 3)} for n in numbers])


def load_environment(broken: bool = False, held_out: bool = True):
    def failing(completion) -> float:
        raise ConnectionError("the judge is away")

    rubric = vf.Rubric(funcs=[exact, failing if broken else short], weights=[1.0, 0.0])
    test = rows(1000, 10) if held_out else None
    return vf.ToolEnv(dataset=rows(0, 20), eval_dataset=test, tools=[add], rubric=rubric, max_turns=5)
