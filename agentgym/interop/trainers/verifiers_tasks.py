"""`AgentGymTaskset` and `AgentGymHarness`: environments for verifiers from 0.4 on, which has tasksets and harnesses.

The harness plays in the process of verifiers: each of the model's messages is a turn. It starts no program; verifiers
allows this if the model is queried through its endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import finished
from agentgym.core.making import closed_after, full_env_id, make_env
from agentgym.core.task import iterate
from agentgym.eval.suites.validation import check_gold
from agentgym.interop.episodes import CalledEpisode, PooledEpisodes
from agentgym.interop.openings import sendable
from agentgym.interop.packages import require_package
from agentgym.rollout.jobs import EnvFactory

try:
    import httpx
    import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]
    from verifiers.v1.runtimes import ProgramResult  # pyright: ignore[reportMissingImports]
except ImportError as error:
    require_package("verifiers")
    raise UsageError(
        "this verifiers has no tasksets; use agentgym.interop.trainers.verifiers or verifiers>=0.4"
    ) from error

RESULT = "agentgym"
"""The entry of a trace's `info` with `reward`, `turn_rewards`, `channels`, `ending` and `truncated`."""
_LIMITS = {"max_turns": Reason.MAX_TURNS, "context_length": Reason.CONTEXT}


class AgentGymConfig(vf.TasksetConfig):
    """Which tasks to play."""

    env: str = "sql"
    """Id of the environment, or `module:Class`."""
    arguments: dict[str, Any] = {}
    """Arguments of the environment."""
    split: str = "train"
    """The split of the tasks."""
    count: int = 100
    """Maximum number of tasks."""
    seed: int = 0
    """Seed of the first task; task `index` has `seed + index`."""


class AgentGymData(vf.TaskData):
    """A task and its seed, without its gold."""

    env: str
    arguments: dict[str, Any]
    task_id: str
    seed: int


class AgentGymTask(vf.Task[AgentGymData, vf.State, vf.TaskConfig]):
    """A task with the environment's own reward."""

    @property
    def key(self) -> str:
        """The id of the task."""
        return self.data.task_id

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """The reward of the episode."""
        return trace.info[RESULT]["reward"]

    @vf.metric
    async def channels(self, trace: vf.Trace) -> dict[str, float]:
        """The sums of the reward channels."""
        return trace.info[RESULT]["channels"]

    async def validate(self, runtime: Any) -> bool:
        """Whether the environment's own solution gets full marks."""
        factory = _factory(self.data)
        with closed_after(factory()) as env:
            task = env.tasks.find(self.data.task_id)
        return not list(check_gold(factory, [task], seed=self.data.seed))


class AgentGymTaskset(vf.Taskset[AgentGymTask, AgentGymConfig]):
    """The tasks of a split."""

    def load(self) -> Iterator[AgentGymTask]:
        """Yield the tasks."""
        config = self.config
        env_id = full_env_id(config.env)
        with closed_after(make_env(env_id, config.arguments)) as env:
            for index, task in enumerate(iterate(env.tasks, config.split, config.count)):
                seed = config.seed + index
                data = AgentGymData(
                    id=task.id,
                    name=task.id,
                    prompt=task.prompt,
                    env=env_id,
                    arguments=config.arguments,
                    task_id=task.id,
                    seed=seed,
                )
                yield AgentGymTask(data, config.task)


class AgentGymHarness(vf.Harness[vf.HarnessConfig]):
    """Plays a task of `AgentGymTaskset`. A failure around the model is an error of the trace, which has no reward."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    def __init__(self, config: vf.HarnessConfig):
        super().__init__(config)
        self._pools: dict[str, PooledEpisodes] = {}

    async def launch(
        self,
        ctx: Any,
        trace: vf.Trace,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: AgentGymData,
    ) -> ProgramResult:
        """Play the episode with the model at `endpoint`."""
        pool = self._pool(data)
        episode = await pool.take()
        try:
            opening = await episode.abegin(seed=data.seed, options={"task": data.task_id})
            headers = {"Authorization": f"Bearer {secret}"}
            async with httpx.AsyncClient(base_url=endpoint, headers=headers, timeout=None) as client:
                reason = await _play(episode, sendable(opening), Model(client, ctx.model), trace)
            trace.info[RESULT] = await _result(episode, reason)
        finally:
            await pool.give_back(episode)
            await pool.close_if_idle()
        return ProgramResult(exit_code=0, stdout="", stderr="")

    def _pool(self, data: AgentGymData) -> PooledEpisodes:
        kind = json.dumps([data.env, data.arguments], sort_keys=True)
        return self._pools.setdefault(kind, PooledEpisodes(_factory(data)))


class Model:
    """The model behind the endpoint of verifiers.

    Args:
        client: The HTTP client of the endpoint.
        name: Name of the model.
    """

    def __init__(self, client: httpx.AsyncClient, name: str):
        self._client, self._name = client, name

    async def respond(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the model's message, with its `finish_reason`.

        Raises `httpx.HTTPStatusError` if verifiers or the model's server refuses.
        """
        body = {"model": self._name, "messages": messages, **({"tools": tools} if tools else {})}
        reply = await self._client.post("/chat/completions", json=body)
        reply.raise_for_status()
        choice = reply.json()["choices"][0]
        return {**choice["message"], "finish_reason": choice.get("finish_reason")}


async def _play(episode: CalledEpisode, messages: list[dict[str, Any]], model: Model, trace: vf.Trace) -> Reason:
    """Play until the episode ends or verifiers stops it; return the reason for ending it."""
    is_native = episode.env.dialect.name == "native"
    tools = episode.info["tools"] if is_native else []
    while not episode.is_over:
        try:
            message = await model.respond(messages, tools)
        except httpx.HTTPStatusError:
            if trace.stop_condition is None:
                raise
            return _limit(trace.stop_condition)
        reason = message.pop("finish_reason", None)
        messages.append({key: value for key, value in message.items() if value is not None})
        action = {"role": "assistant", "content": "", **messages[-1]} if is_native else message.get("content") or ""
        messages += sendable(await episode.astep(finished(action, reason)))
    return Reason.GAVE_UP


def _limit(condition: str) -> Reason:
    return _LIMITS.get(condition, Reason.TOKEN_BUDGET if "token" in condition else Reason.TIME)


async def _result(episode: CalledEpisode, reason: Reason) -> dict[str, Any]:
    return {
        "reward": await episode.aend(reason),
        "turn_rewards": episode.turn_rewards,
        "channels": episode.channels,
        "ending": episode.ending,
        "truncated": episode.is_truncated,
    }


def _factory(data: AgentGymData) -> EnvFactory:
    return EnvFactory(data.env, {"dialect": "native", **data.arguments})
