"""The verifiers side of `rollouts_vs_verifiers`, run by the Python that has `verifiers`. Does not import agentgym.

Reads one JSON request from standard input and prints one JSON answer.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from importlib import metadata
from typing import Any


def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: The expression, e.g. 3 * (4 + 5).
    """
    return str(eval(expression, {"__builtins__": {}}))


def right(completion: list[Any], answer: str, **_: Any) -> float:
    return float(answer in str(completion[-1]))


def main() -> None:
    logging.disable(logging.WARNING)
    request = json.load(sys.stdin)
    told, sys.stdout = sys.stdout, sys.stderr
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from verifiers import legacy as vf  # pyright: ignore[reportMissingImports]

    os.environ["FAKE_KEY"] = "none"
    client = vf.ClientConfig(api_key_var="FAKE_KEY", api_base_url=request["url"])

    def play(count: int) -> tuple[float, float]:
        rows = [{"question": f"Task {number}: use the calculator.", "answer": "10.0"} for number in range(count)]
        env = vf.ToolEnv(
            tools=[calculator], max_turns=10, dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right])
        )
        started = time.perf_counter()
        found = env.evaluate_sync(client, "fake", max_concurrent=request["concurrency"])
        elapsed = time.perf_counter() - started
        rewards = [output["reward"] for output in found["outputs"]]
        return elapsed, sum(rewards) / count

    play(8)
    elapsed, solved = play(request["rollouts"])
    answer = {
        "rollouts_per_s": request["rollouts"] / elapsed,
        "solved": solved,
        "version": metadata.version("verifiers"),
    }
    json.dump(answer, told)


if __name__ == "__main__":
    main()
