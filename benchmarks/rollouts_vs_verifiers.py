"""Whole rollouts per second behind a chat endpoint, compared with verifiers' `ToolEnv`.

Both run the same workload: a model calls a calculator four times and then answers (5 turns). The model is a fake
endpoint in its own process, so that only the client is measured: environment, rollouts, HTTP. Ours is the policy of
`--policy openai:MODEL@URL`, with retries, usage and pacing.

The peer needs its own Python environment:

    python -m venv verifiers && verifiers/bin/pip install verifiers==0.3.1
    python -m benchmarks.rollouts_vs_verifiers --peer-python verifiers/bin/python
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial

from agentgym import Env, GeneratedTasks, Reason, Task, ToolError, tool
from agentgym.eval.evaluation import evaluate_async
from agentgym.rollout import EnvFactory, Limits
from agentgym.trainers.endpoint import EndpointPolicy, EndpointSettings, Price
from benchmarks._fake_endpoint import serving
from benchmarks._peers import peer, versions_in
from benchmarks._report import Claim, Contender, argument_parser, in_turns, median_ratio, write

WIDTHS = (1, 16)
"""Concurrent episodes."""


class Calculator(Env):
    """Calculate, then say the answer."""

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        """Return the tasks, all with the same answer."""

        def task(split: str, index: int) -> Task:
            return Task(f"sum/{split}/{index}", split, f"Task {index}: use the calculator.", gold={"answer": "10.0"})

        return GeneratedTasks("sum", task, {"train": None})

    @tool
    def calculator(self, expression: str) -> str:
        """Evaluate an arithmetic expression.

        Args:
            expression: The expression, e.g. 3 * (4 + 5).
        """
        try:
            return str(eval(expression, {"__builtins__": {}}))
        except Exception as error:
            raise ToolError(f"Not an expression: {error}") from error

    def respond(self, text: str) -> str:
        """Take the answer."""
        self.reward("outcome", float(self.task.gold["answer"] in text))
        self.finish(Reason.ANSWERED)
        return ""


def endpoint_policy(url: str) -> EndpointPolicy:
    prices = {"fake": Price(input=1, output=2)}
    return EndpointPolicy("fake", url, EndpointSettings(temperature=1.0, max_tokens=512, prices=prices, budget=1e9))


def play(url: str, count: int, width: int) -> dict[str, float]:
    """Play episodes; return rollouts per second of wall-clock and of CPU time."""

    async def timed() -> dict[str, float]:
        policy, factory = (
            endpoint_policy(url),
            EnvFactory("benchmarks.rollouts_vs_verifiers:Calculator", {"dialect": "native"}),
        )
        env = factory()
        tasks = [env.tasks.get("train", index) for index in range(count)]
        limits = Limits(max_in_flight=width)
        await evaluate_async(factory, policy, tasks[:8], limits=limits)
        wall, cpu = time.perf_counter(), time.process_time()
        summary = await evaluate_async(factory, policy, tasks, limits=limits)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert summary.success == 1.0
        return {"rollouts_per_s": round(count / wall, 1), "rollouts_per_cpu_s": round(count / cpu, 1)}

    return asyncio.run(timed())


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has verifiers==0.3.1")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rollouts", type=int, default=150, help="rollouts of verifiers per run; ours are more")
    options = parser.parse_args()
    with serving() as url, peer(options.peer_python, "_verifiers_peer") as ask:
        count = options.rollouts
        contenders: list[Contender] = []
        for width in WIDTHS:
            request = {"url": url, "rollouts": count, "concurrency": width}
            contenders.append(({"name": f"agentgym, {width} at a time"}, partial(play, url, 4 * count, width)))
            contenders.append(({"name": f"verifiers, {width} at a time"}, partial(ask, request)))
        rows = list(in_turns(range(options.runs), contenders))

    def ratio(ours: int, theirs: int) -> float:
        names = f"agentgym, {ours} at a time", f"verifiers, {theirs} at a time"
        return median_ratio(rows, *names, rate="rollouts_per_s")

    claims = [
        Claim("rollouts_vs_verifiers", ratio(16, 16), ">=", 4),
        Claim("rollouts_vs_verifiers_one_at_a_time", ratio(1, 1), ">=", 2),
        Claim("rollouts_vs_verifiers_at_its_best", min(ratio(16, width) for width in WIDTHS), ">=", 4),
    ]
    versions = versions_in(options.peer_python, "verifiers")
    write("rollouts_vs_verifiers", rows, claims, packages=("aiohttp",), more_versions=versions)


if __name__ == "__main__":
    main()
