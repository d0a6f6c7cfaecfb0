"""The verifiers side of `rollouts_vs_verifiers`, run by the Python that has `verifiers`. Does not import agentgym."""

from __future__ import annotations

import logging
import os
import time
from typing import Any

from benchmarks._peers import answer


def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: The expression, e.g. 3 * (4 + 5).
    """
    return str(eval(expression, {"__builtins__": {}}))


def right(completion: list[Any], answer: str, **_: Any) -> float:
    return float(answer in str(completion[-1]))


def measure(request: dict[str, Any]) -> dict[str, Any]:
    play(request["url"], 8, request["concurrency"])
    seconds = play(request["url"], request["rollouts"], request["concurrency"])
    return {"rollouts_per_s": round(request["rollouts"] / seconds, 1)}


def play(url: str, count: int, width: int) -> float:
    """Play episodes; return the seconds that they took."""
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from verifiers import legacy as vf  # pyright: ignore[reportMissingImports]

    client = vf.ClientConfig(api_key_var="FAKE_KEY", api_base_url=url)
    rows = [{"question": f"Task {number}: use the calculator.", "answer": "10.0"} for number in range(count)]
    env = vf.ToolEnv(tools=[calculator], max_turns=10, dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))
    started = time.perf_counter()
    played = env.evaluate_sync(client, "fake", max_concurrent=width)
    seconds = time.perf_counter() - started
    assert all(output["reward"] == 1.0 for output in played["outputs"])
    return seconds


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    os.environ["FAKE_KEY"] = "none"
    answer(measure)
