"""The same tasks, seeds and moves are the same episodes, whichever way the environment is played.

A way to play joins as a function in `DRIVERS`: it is given what to play and returns what it read and earned. Where
another package is needed, `needs` names its modules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from agentgym.dialects import get_dialect
from agentgym.messages import Message, ToolCall, assistant, text_of
from agentgym.registry import make
from agentgym.rollout.limits import Limits
from agentgym.suites.one_off import one_off
from agentgym.task import TaskList
from tests.interop.peers import needs
from tests.interop.seeded_sql import SEEDED_SQL
from tests.rows import each_row

ENV, SPLIT, COUNT, SEED = SEEDED_SQL, "test", 6, 40
WRONG = ToolCall("query", {"limit": 3})
"""A call with wrong arguments, which every policy here makes first."""


@dataclass(frozen=True)
class Plan:
    """An episode to play: the task, its seed, and the calls, one a turn. The last one ends it."""

    task_id: str
    index: int
    seed: int
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class Played:
    """What a way of playing told of an episode."""

    task: str
    """The user's message that it begins with."""
    read: tuple[str, ...]
    """What the policy read after each call."""
    reward: float
    turn_rewards: tuple[float, ...] | None
    """`None` where turns have no rewards of their own."""


Driver = Callable[[list[Plan]], list[Played]]


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    """The environment's own solutions, each after a mistake; every other one gives a wrong answer."""
    return [scripted(index) for index in range(COUNT)]


def scripted(index: int) -> Plan:
    with_gold = make(ENV, dialect="native")
    _, info = with_gold.reset(seed=SEED + index, options={"split": SPLIT, "index": index})
    calls, observation = [WRONG], with_gold.step(assistant("", [WRONG])).observation
    solution = with_gold.solution(with_gold.task)
    move: Any = next(solution)
    try:
        while True:
            if index % 2 and move.name == "submit":
                move = ToolCall("submit", {"answer": "SELECT 1 WHERE 1 = 0"})
            calls.append(move)
            observation = with_gold.step(assistant("", [move])).observation
            move = solution.send(observation)
    except StopIteration:
        with_gold.close()
    return Plan(info["task"], index, SEED + index, tuple(calls))


# The ways to play.


def native(plans: list[Plan]) -> list[Played]:
    """`Env` itself."""
    env = make(ENV, dialect="native")
    done = []
    for plan in plans:
        opening, _ = env.reset(seed=plan.seed, options={"task": plan.task_id})
        results = [env.step(assistant("", [call])) for call in plan.calls]
        assert results[-1].terminated
        done.append(told(opening, [text_in(r.observation) for r in results], [r.reward for r in results]))
    env.close()
    return done


def vector(plans: list[Plan]) -> list[Played]:
    """All at the same time in a vector environment of Gymnasium, which resets those that are over."""
    tasks = [make(ENV).tasks.get(SPLIT, plan.index) for plan in plans]
    spec = EnvSpec("same/sql-v0", ENV)
    envs = gymnasium.vector.SyncVectorEnv(
        [partial(gymnasium.make, spec, dialect="native", tasks=TaskList([task])) for task in tasks]
    )
    openings, _ = envs.reset(seed=[plan.seed for plan in plans], options={"index": 0})
    read: list[list[str]] = [[] for _ in plans]
    rewards: list[list[float]] = [[] for _ in plans]
    for turn in range(max(len(plan.calls) for plan in plans)):
        calls = [plan.calls[min(turn, len(plan.calls) - 1)] for plan in plans]
        observations, paid, *_ = envs.step([assistant("", [call]) for call in calls])
        for place, plan in enumerate(plans):
            if turn < len(plan.calls):
                read[place].append(text_in(observations[place]))
                rewards[place].append(float(paid[place]))
    envs.close()
    return [told(openings[place], read[place], rewards[place]) for place in range(len(plans))]


def remote(plans: list[Plan]) -> list[Played]:
    """On a server, as `RemoteEnv`."""
    with served() as server:
        env = server.env(dialect="native")
        done = []
        for plan in plans:
            opening, _ = env.reset(seed=plan.seed, options={"split": SPLIT, "index": plan.index})
            results = [env.step(assistant("", [call])) for call in plan.calls]
            done.append(told(opening, [text_in(r.observation) for r in results], [r.reward for r in results]))
        env.close()
    return done


def over_http(plans: list[Plan]) -> list[Played]:
    """On a server, with plain requests."""
    with served() as server:
        opened = server.client.post("/sessions", json={"arguments": {"dialect": "native"}}).json()
        session, done = f"/sessions/{opened['session']}", []
        for plan in plans:
            options = {"split": SPLIT, "index": plan.index}
            begun = server.client.post(f"{session}/reset", json={"seed": plan.seed, "options": options}).json()
            actions = [assistant("", [call]) for call in plan.calls]
            results = [server.client.post(f"{session}/step", json={"action": action}).json() for action in actions]
            read = [text_in(result["observation"]) for result in results]
            done.append(told(begun["observation"], read, [result["reward"] for result in results]))
    return done


def trl(plans: list[Plan]) -> list[Played]:
    """As TRL calls an `environment_factory`: instances stay, and methods are found on the class."""
    from agentgym.interop.trl import environment_class, rows

    kind = environment_class(ENV)
    environment = kind()
    done = []
    for plan, row in zip(plans, rows(ENV, split=SPLIT, count=len(plans), seed=SEED), strict=True):
        assert (row["task_id"], row["seed"]) == (plan.task_id, plan.seed)
        assert environment.reset(**row) is None
        read = [getattr(environment, call.name)(**call.arguments) for call in plan.calls]
        reward = environment.get_reward()
        assert reward is not None
        done.append(Played(row["prompt"][-1]["content"], tuple(read), reward, None))
    return done


def skyrl(plans: list[Plan]) -> list[Played]:
    """As SkyRL's generator plays: a new environment for each episode, and text."""
    import skyrl_gym  # type: ignore[import-not-found]

    from agentgym.interop.skyrl import register, rows

    register("agentgym-same", ENV)
    dialect, done = get_dialect("hermes"), []
    for plan, row in zip(plans, rows("agentgym-same", ENV, split=SPLIT, count=len(plans), seed=SEED), strict=True):
        env = skyrl_gym.make("agentgym-same", env_config={}, extras={**row, "max_turns": 8})
        history, _ = env.init(row["prompt"])
        steps = [env.step(dialect.render("", [call], make(ENV).tools)) for call in plan.calls]
        assert [step["done"] for step in steps] == [False] * (len(steps) - 1) + [True]
        env.close()
        read = ["".join(message["content"] for message in step["observations"]) for step in steps]
        done.append(told(history, read, [step["reward"] for step in steps]))
    return done


def verifiers(plans: list[Plan]) -> list[Played]:
    """In verifiers' own evaluation, with a model that makes the calls."""
    from agentgym.interop.verifiers import load_environment
    from tests.endpoints import Fake
    from tests.interop.peers import as_completion
    from tests.interop.test_verifiers import evaluated

    by_task = {one.task: plan for one, plan in zip(native(plans), plans, strict=True)}

    def answer(request: Any, number: int) -> Any:
        messages = request["messages"]
        plan = by_task[next(text_of(m) for m in messages if m["role"] == "user")]
        return as_completion(plan.calls[sum(m["role"] == "assistant" for m in messages)])

    env = load_environment(ENV, count=len(plans), eval_split=SPLIT, seed=SEED)
    with Fake(answer).serving() as url:
        outputs = sorted(evaluated(env, url), key=lambda one: one["example_id"])
    return [as_told(one) for one in outputs]


def as_told(output: Any) -> Played:
    read = [message["content"] for message in output["completion"] if message["role"] != "assistant"]
    return replace(told(output["prompt"], read, output["turn_rewards"]), reward=output["reward"])


def openenv(plans: list[Plan]) -> list[Played]:
    """On OpenEnv's server, with its client."""
    from tests.interop.test_openenv import action, client_of
    from tests.interop.test_openenv import served as served_by_openenv

    done = []
    with served_by_openenv(ENV) as url, client_of(url) as client:
        for plan in plans:
            opening = client.reset(seed=plan.seed, split=SPLIT, index=plan.index).observation["messages"]
            results = [client.step(action(call)) for call in plan.calls]
            read = [text_in(result.observation["messages"]) for result in results]
            done.append(told(opening, read, [result.reward for result in results]))
    return done


def mcp(plans: list[Plan]) -> list[Played]:
    """As sessions of an MCP server over HTTP, all at the same time; they learn of rewards at the end only."""
    from tests.interop import test_mcp_out as mcp_out

    async def play(url: str, plan: Plan) -> tuple[list[Any], list[str], dict[str, Any]]:
        wanted = {"split": SPLIT, "index": plan.index, "seed": plan.seed, "name": plan.task_id}
        async with mcp_out.by_http(url, **wanted) as session:
            opening = await mcp_out.resource(session, mcp_out.OPENING_URI)
            answers: list[Any] = [await session.call_tool(call.name, dict(call.arguments)) for call in plan.calls]
        told_of = [answer.structuredContent for answer in answers]
        assert told_of[:-1] == [None] * (len(answers) - 1)
        return opening, ["".join(block.text for block in answer.content) for answer in answers], told_of[-1]

    async def play_all(url: str) -> list[Any]:
        return await asyncio.gather(*(play(url, plan) for plan in plans))

    with TemporaryDirectory() as folder, stopping(mcp_out.Served(ENV, Path(folder))) as server:
        played = asyncio.run(play_all(server.url))
        records = {record.id: record for record in server.records()}
    done = [told(opening, read, result["turn_rewards"]) for opening, read, result in played]
    assert [one.reward for one in done] == [result["reward"] for *_, result in played]
    return [replace(one, reward=records[plan.task_id].reward) for one, plan in zip(done, plans, strict=True)]


def inspect(plans: list[Plan]) -> list[Played]:
    """As samples of Inspect AI, with a model that makes the calls."""
    from agentgym.interop.inspect import Seat, task_of
    from tests.interop.test_inspect import evaluated, model_that

    [entry] = one_off(ENV, {}, (), attempts=1, limits=Limits(), temperature=1.0).entries
    tasks = make(ENV).tasks
    seats = [Seat(entry, tasks.get(SPLIT, plan.index), plan.seed) for plan in plans]
    by_task = {one.task: plan for one, plan in zip(native(plans), plans, strict=True)}

    def answer(messages: list[dict[str, Any]]) -> Any:
        plan = by_task[next(text_of(m) for m in messages if m["role"] == "user")]
        return [plan.calls[sum(m["role"] == "assistant" for m in messages)]]

    with TemporaryDirectory() as folder:
        log = evaluated(task_of("same", seats), model_that(answer), Path(folder))
        samples = {sample.id: sample for sample in log.samples}  # they are read when they are asked for
    return [as_scored(samples[plan.task_id]) for plan in plans]


def as_scored(sample: Any) -> Played:
    score = sample.scores["agentgym"]
    roles = [message.role for message in sample.messages]
    opening, rest = sample.messages[: roles.index("assistant")], sample.messages[roles.index("assistant") :]
    read = [message.text for message in rest if message.role != "assistant"]
    return Played(opening[-1].text, tuple(read), score.value["reward"], tuple(score.metadata["turn_rewards"]))


DRIVERS: tuple[Any, ...] = (
    vector,
    remote,
    over_http,
    trl,
    pytest.param(skyrl, marks=needs("skyrl_gym")),
    pytest.param(verifiers, marks=needs("verifiers")),
    pytest.param(openenv, marks=needs("openenv")),
    pytest.param(mcp, marks=needs("mcp")),
    pytest.param(inspect, marks=needs("inspect_ai")),
)
"""The ways to play, besides `native`. Another one is another line here."""


@pytest.mark.real
@each_row("driver", DRIVERS)
def test_the_same_moves_are_the_same_episodes(driver: Driver, plans: list[Plan]):
    for one, wanted in zip(driver(plans), native(plans), strict=True):
        if one.turn_rewards is None:
            wanted = replace(wanted, turn_rewards=None)
        assert one == replace(wanted, reward=pytest.approx(wanted.reward))


def test_the_episodes_differ_and_some_are_solved(plans: list[Plan]):
    played = native(plans)
    assert len({one.task for one in played}) == COUNT
    assert [one.reward > 0.9 for one in played] == [index % 2 == 0 for index in range(COUNT)]
    assert all("limit" in one.read[0] for one in played)


def test_another_seed_is_another_episode(plans: list[Plan]):
    others = native([replace(plan, seed=plan.seed + 1) for plan in plans])
    assert all(one.task != other.task for one, other in zip(native(plans), others, strict=True))


def told(opening: list[Any], read: list[str], rewards: list[float]) -> Played:
    return Played(text_of(opening[-1]), tuple(read), sum(rewards), tuple(rewards))


def text_in(observation: list[Message]) -> str:
    return "".join(map(text_of, observation))


@contextmanager
def stopping(server: Any) -> Iterator[Any]:
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def served() -> Iterator[Any]:
    """Serve the environment to this machine."""
    servers = pytest.importorskip("tests.served_envs", reason="needs the [serve] extra")
    with servers.served(ENV) as server:
        yield server
