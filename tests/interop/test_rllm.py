"""Our environments in rLLM: a flow plays with a scripted model.

rLLM is not on PyPI. If it is missing, the flow uses stand-ins with the names in `rllm_contract.json`, which come from
rLLM's source. If it is installed, its own engine plays too.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import make_dataclass
from enum import Enum
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.base.errors import InfrastructureError
from agentgym.core.messages import ToolCall
from tests.endpoints import Fake, Said, call, completion
from tests.interop.guarantees import SPLIT, Guarantee, Moves, Seen, hold, said_next
from tests.interop.peers import as_completion, by_task, needs, run_page, seen_in
from tests.interop.probe_env import PROBE
from tests.rows import each_row

CONTRACT = json.loads((Path(__file__).parent / "rllm_contract.json").read_text(encoding="utf-8"))
PAY, FINISH = ToolCall("pay", {"amount": 0.25}), ToolCall("finish_as", {"what": "solved"})

Answer = Callable[[Mapping[str, Any], int], Said]


def contract_modules() -> dict[str, ModuleType]:
    """Modules with classes that have the names and fields of the contract, and nothing else."""
    modules: dict[str, ModuleType] = {}
    for kind, make in (("classes", _class), ("enums", lambda name, members: Enum(name, members))):
        for module, fields in CONTRACT[kind].items():
            for path in (module.split(".")[: depth + 1] for depth in range(module.count(".") + 1)):
                name = ".".join(path)
                modules.setdefault(name, ModuleType(name)).__spec__ = ModuleSpec(name, None)
            for name, members in fields.items():
                setattr(modules[module], name, make(name, members))
    return modules


def _class(name: str, fields: Sequence[str]) -> type:
    return make_dataclass(name, [(field, Any, None) for field in fields])


@pytest.fixture(scope="module", autouse=True)
def rllm() -> Iterator[Any]:
    """The adapter, with rLLM or with what stands for it."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("rllm") is None:
            for name, module in contract_modules().items():
                patch.setitem(sys.modules, name, module)
        adapter = importlib.import_module("agentgym.interop.trainers.rllm")
        yield adapter
        sys.modules.pop("agentgym.interop.trainers.rllm")


@contextmanager
def model(answer: Answer) -> Iterator[tuple[str, Fake]]:
    fake = Fake(answer, strict=True)
    with fake.serving() as url:
        yield url, fake


def by_turn(*moves: ToolCall) -> Answer:
    return lambda request, _: as_completion(moves[sum(m["role"] == "assistant" for m in request["messages"])])


def run(rllm: Any, env: str, answer: Answer, **options: Any) -> Any:
    """Run a flow as rLLM does, and return its episode."""
    types = importlib.import_module("rllm.types")
    [row] = rllm.rows(env, count=1, seed=7)
    with model(answer) as (url, _):
        task = types.Task(id="0", instruction=row["question"], metadata=row)
        config = types.AgentConfig(base_url=url, model="m", session_uid="s")
        return rllm.EnvFlow(env, **options).run(task, config)


def test_steps_have_their_rewards_and_the_evaluator_returns_the_sum(rllm: Any):
    episode = run(rllm, PROBE, by_turn(PAY, ToolCall("roll"), FINISH))
    [trajectory] = episode.trajectories
    assert [(step.reward, step.done) for step in trajectory.steps] == [(0.25, False), (0.0, False), (1.0, True)]
    assert (trajectory.reward, episode.is_correct, episode.metadata["ending"]) == (1.25, True, "solved")
    result = rllm.EnvEvaluator().evaluate(None, episode)
    assert (result.reward, result.is_correct) == (1.25, True)
    assert {signal.name: signal.value for signal in result.signals}.items() >= {"outcome": 1.0, "paid": 0.25}.items()


def test_a_conversation_that_outgrew_the_model_is_graded_on_what_it_had_earned(rllm: Any):
    too_long = Said({"error": {"message": "maximum context length is 32768 tokens"}}, 400)
    episode = run(rllm, PROBE, lambda request, number: as_completion(PAY) if number < 2 else too_long)
    [trajectory] = episode.trajectories
    assert ([step.reward for step in trajectory.steps], trajectory.reward) == ([0.25, 0.25], 0.5)
    assert (episode.metadata["ending"], episode.termination_reason.name) == ("context", "MAX_PROMPT_LENGTH_EXCEEDED")


def test_a_turn_that_was_cut_off_is_not_run(rllm: Any):
    cut_off = completion({"content": None, "tool_calls": [call("pay", {"amount": 0.25})]}, finish="length")
    episode = run(rllm, PROBE, lambda request, number: as_completion(FINISH) if number else cut_off)
    [trajectory] = episode.trajectories
    assert [(step.reward, step.done) for step in trajectory.steps] == [(0.0, False), (1.0, True)]


@each_row("reply", [Said("gone", 500), Said({"error": {"message": "no such tool"}}, 400)])
def test_a_failing_model_is_an_error_without_a_retry(rllm: Any, reply: Said):
    requests: list[int] = []
    with pytest.raises(InfrastructureError, match=f"status {reply.status}"):
        run(rllm, PROBE, lambda request, number: requests.append(number) or reply)
    assert requests == [0]


def test_the_page_runs(rllm: Any):
    run_page("rllm.md")


# Beside rLLM itself.


class Gateway:
    """Stands in for rLLM's gateway: an address of the model for each session, and a trace of each request there."""

    def __init__(self, url: str, fake: Fake):
        self._url, self._fake = url, fake

    def get_session_url(self, uid: str, **_: Any) -> str:
        return self._url.replace("/v1", f"/sessions/{uid}/v1")

    async def aget_traces(self, uid: str) -> list[Any]:
        from rllm_model_gateway.models import TraceRecord  # type: ignore[import-not-found]

        requests = [r for path, r in zip(self._fake.paths, self._fake.requests, strict=True) if f"/{uid}/" in path]
        tokens = {"prompt_token_ids": [1], "completion_token_ids": [2], "logprobs": [-0.5]}
        return [
            TraceRecord(trace_id=str(number), session_id=uid, messages=request["messages"], **tokens)
            for number, request in enumerate(requests)
        ]

    async def adelete_sessions(self, uids: list[str]) -> None:
        pass


class Driver:
    """Plays in rLLM's `AgentFlowEngine`, which merges steps with the traces of its gateway."""

    adapter = package = "rllm"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        from rllm.engine.agentflow_engine import AgentFlowEngine  # type: ignore[import-not-found]

        adapter = importlib.import_module("agentgym.interop.trainers.rllm")
        flow, evaluator = adapter.EnvFlow(PROBE, attempts=1), adapter.EnvEvaluator()
        rows = [named(index, seed + index) for index in range(len(episodes)) for _ in range(attempts)]
        with model(lambda request, _: as_completion(said_next(request["messages"], episodes, seed))) as (url, fake):
            engine = AgentFlowEngine(flow, evaluator, Gateway(url, fake), "m", retry_limit=1, raise_on_error=False)
            done = asyncio.run(engine.execute_tasks(rows, [str(row["seed"]) for row in rows]))
            engine.shutdown()
        results = list(map(as_seen, done))
        return by_task(results, attempts)


def named(index: int, seed: int) -> dict[str, Any]:
    """A row of `ProbeEnv`, also of an episode that cannot begin."""
    return {"question": "?", "task_id": f"probe/{SPLIT}/{index}", "seed": seed}


def as_seen(episode: Any) -> Seen:
    if not episode.trajectories:
        return Seen(error=episode.metadata["error"]["message"])
    [trajectory] = episode.trajectories
    result = seen_in(trajectory.steps[-1].chat_completions[:-1])
    result.turn_rewards, result.reward = [step.reward for step in trajectory.steps], trajectory.reward
    result.ending = episode.metadata["ending"]
    return result


@pytest.mark.parametrize(
    "guarantee", [pytest.param(guarantee, marks=needs("rllm", "rllm_model_gateway")) for guarantee in Guarantee]
)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)
