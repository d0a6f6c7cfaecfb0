"""The Inspect side of `rollouts_vs_verifiers`, run by the Python that has `inspect-ai`. Does not import agentgym.

Reads one JSON request from standard input and prints one JSON answer.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from importlib import metadata

from inspect_ai import Task, eval  # pyright: ignore[reportMissingImports]
from inspect_ai.dataset import MemoryDataset, Sample  # pyright: ignore[reportMissingImports]
from inspect_ai.model import get_model  # pyright: ignore[reportMissingImports]
from inspect_ai.scorer import includes  # pyright: ignore[reportMissingImports]
from inspect_ai.solver import generate, use_tools  # pyright: ignore[reportMissingImports]
from inspect_ai.tool import Tool, tool  # pyright: ignore[reportMissingImports]


@tool
def calculator() -> Tool:
    async def execute(expression: str) -> str:
        """Evaluate an arithmetic expression.

        Args:
            expression: The expression, e.g. 3 * (4 + 5).
        """
        return str(__builtins__.eval(expression, {"__builtins__": {}}))

    return execute


def main() -> None:
    request = json.load(sys.stdin)
    told, sys.stdout = sys.stdout, sys.stderr
    os.environ["OPENAI_API_KEY"] = "none"
    model = get_model("openai/fake", base_url=request["url"], responses_api=False)

    def play(count: int) -> tuple[float, float]:
        rows = [Sample(input=f"Task {number}: use the calculator.", target="10.0") for number in range(count)]
        task = Task(dataset=MemoryDataset(rows), solver=[use_tools(calculator()), generate()], scorer=includes())
        concurrency = request["concurrency"]
        with tempfile.TemporaryDirectory() as logs:
            started = time.perf_counter()
            [log] = eval(
                task,
                model=model,
                max_samples=concurrency,
                max_connections=concurrency,
                log_dir=logs,
                display="none",
            )
            elapsed = time.perf_counter() - started
        if log.status != "success" or not log.results:
            sys.exit(f"{log.status}: {log.error}")
        return elapsed, log.results.scores[0].metrics["accuracy"].value

    play(8)
    elapsed, solved = play(request["rollouts"])
    answer = {
        "rollouts_per_s": request["rollouts"] / elapsed,
        "solved": solved,
        "version": metadata.version("inspect-ai"),
    }
    json.dump(answer, told)


if __name__ == "__main__":
    main()
