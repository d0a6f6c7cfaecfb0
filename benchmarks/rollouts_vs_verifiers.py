"""Whole rollouts per second behind a chat endpoint, compared with verifiers' `ToolEnv` and with Inspect.

One workload for all: a model calls a calculator four times and then answers (5 turns). The model is a fake endpoint in
a process of its own, so that what is measured is the client: environment, rollouts, HTTP. Ours is the policy that
`--policy openai:MODEL@URL` loads, with retries, usage and pacing. Beside it, a `FunctionPolicy` that only posts with
httpx, to show what the HTTP client costs. Inspect writes its log, which it always does.

The peers need environments of their own:

    python -m venv verifiers && verifiers/bin/pip install verifiers==0.3.1
    python -m venv inspect && inspect/bin/pip install inspect-ai==0.3.285 openai
    python -m benchmarks.rollouts_vs_verifiers --peer-python verifiers/bin/python --inspect-python inspect/bin/python
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from agentgym import Env, GeneratedTasks, Reason, Task, ToolError, tool
from agentgym.engine.steps import Solution
from agentgym.evaluation import evaluate_async
from agentgym.messages import Message, ToolCall
from agentgym.policy import FunctionPolicy, Policy
from agentgym.rollout import EnvFactory, Limits
from agentgym.trainers.endpoint import EndpointPolicy, EndpointSettings, Price
from benchmarks._fake_endpoint import ANSWER, CALLS, EXPRESSIONS, serving
from benchmarks._peers import ask_peer
from benchmarks._report import Claim, median_ratio, write

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

    def solution(self, task: Task) -> Solution:
        """Do what the fake endpoint's model does."""
        for expression in EXPRESSIONS[:CALLS]:
            yield ToolCall("calculator", {"expression": expression})
        yield ANSWER


def endpoint_policy(url: str) -> EndpointPolicy:
    prices = {"fake": Price(input=1, output=2)}
    return EndpointPolicy("fake", url, EndpointSettings(temperature=1.0, max_tokens=512, prices=prices, budget=1e9))


def bare_policy(url: str) -> Policy:
    client = httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=64))

    async def ask(messages: list[Message], tools: list[dict[str, Any]]) -> Any:
        body = {"model": "fake", "messages": messages, "tools": tools}
        answer = await client.post(f"{url}/chat/completions", json=body)
        answer.raise_for_status()
        return answer.json()["choices"][0]["message"]

    return FunctionPolicy("httpx", ask)


def play(make: Callable[[str], Policy], url: str, count: int, width: int) -> dict[str, float]:
    """Play episodes; return rollouts per second of wall-clock and of CPU time."""

    async def timed() -> dict[str, float]:
        policy, factory = make(url), EnvFactory("benchmarks.rollouts_vs_verifiers:Calculator", {"dialect": "native"})
        env = factory()
        tasks = [env.tasks.get("train", index) for index in range(count)]
        limits = Limits(max_in_flight=width)
        await evaluate_async(factory, policy, tasks[:8], limits=limits)
        wall, cpu = time.perf_counter(), time.process_time()
        summary = await evaluate_async(factory, policy, tasks, limits=limits)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert summary.success is not None
        return {"rollouts_per_s": count / wall, "rollouts_per_cpu_s": count / cpu, "solved": summary.success}

    return asyncio.run(timed())


def peer(python: str, name: str, url: str, count: int, width: int) -> dict[str, Any]:
    """Let another project's harness play."""
    request = {"url": url, "rollouts": count, "concurrency": width}
    return ask_peer(python, f"_{name}_peer.py", request, needs=name)


def run(options: argparse.Namespace, url: str, versions: dict[str, str]) -> list[dict[str, Any]]:
    """Run all contenders in turns, so that other load on the machine affects all alike."""
    count = options.rollouts
    contenders: dict[str, Callable[[int], Mapping[str, Any]]] = {
        "agentgym endpoint policy": lambda width: play(endpoint_policy, url, 4 * count, width),
        "agentgym bare httpx": lambda width: play(bare_policy, url, 2 * count, width),
        "verifiers ToolEnv": lambda width: peer(options.peer_python, "verifiers", url, count, width),
    }
    if options.inspect_python:
        contenders["inspect"] = lambda width: peer(options.inspect_python, "inspect", url, count // 2, width)
    rows: list[dict[str, Any]] = []
    for number in range(options.runs):
        for width in WIDTHS:
            for name, measure in contenders.items():
                found = dict(measure(width))
                if found["solved"] != 1.0:
                    sys.exit(f"{name} solved {found['solved']:.0%} of the episodes")
                if "version" in found:
                    versions[name.split()[0]] = found["version"]
                row = {
                    "run": number,
                    "name": f"{name}, {width} at a time",
                    "steps_per_s": round(found["rollouts_per_s"], 1),
                }
                if "rollouts_per_cpu_s" in found:
                    row["per_cpu_s"] = round(found["rollouts_per_cpu_s"], 1)
                rows.append(row)
                print(
                    f"run {number + 1}/{options.runs}  {row['name']:42} {row['steps_per_s']:>8} rollouts/s",
                    file=sys.stderr,
                )
    return rows


def _against_best(rows: Sequence[Mapping[str, Any]], name: str, base: str) -> float:
    """Return how many times `base` `name` is, where `base` runs as many episodes at a time as suits it best."""
    return min(median_ratio(rows, name, f"{base}, {width} at a time") for width in WIDTHS)


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print medians and spreads."""
    for name in dict.fromkeys(row["name"] for row in rows):
        rates = sorted(row["steps_per_s"] for row in rows if row["name"] == name)
        print(f"{name:42} median {statistics.median(rates):8.1f}  from {rates[0]:.1f} to {rates[-1]:.1f} rollouts/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has verifiers==0.3.1")
    parser.add_argument("--inspect-python", help="a Python that has inspect-ai and openai")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rollouts", type=int, default=150, help="rollouts of verifiers per run; ours are more")
    options = parser.parse_args()
    versions: dict[str, str] = {}
    with serving() as url:
        rows = run(options, url, versions)
    show(rows)
    one, many = (f"{width} at a time" for width in WIDTHS)
    ours, peer = "agentgym endpoint policy", "verifiers ToolEnv"
    claims = [
        Claim("rollouts_vs_verifiers", median_ratio(rows, f"{ours}, {many}", f"{peer}, {many}"), ">=", 4),
        Claim("rollouts_vs_verifiers_one_at_a_time", median_ratio(rows, f"{ours}, {one}", f"{peer}, {one}"), ">=", 2),
    ]
    claims.append(Claim("rollouts_vs_verifiers_at_its_best", _against_best(rows, f"{ours}, {many}", peer), ">=", 4))
    if options.inspect_python:
        claims.append(Claim("rollouts_vs_inspect", median_ratio(rows, f"{ours}, {many}", f"inspect, {many}"), ">=", 4))
    write("rollouts_vs_verifiers", rows, claims, packages=("aiohttp", "httpx"), more_versions=versions)


if __name__ == "__main__":
    main()
