"""rLLM (0.3, installed from GitHub): episodes of an environment as an `AgentFlow`, and their `Evaluator`.

`docs/interop/rllm.md` has a complete example. rLLM gives a flow the URL of a model and records the model's messages
there; the flow runs the conversation: each of the model's messages is a turn.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from agentgym.base.errors import InfrastructureError, MissingExtra
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import finished
from agentgym.core.messages import Message
from agentgym.core.registry import make
from agentgym.interop.episodes import ReplayedEpisode
from agentgym.interop.openings import Wire, episode_named, openings, sendable

if find_spec("rllm") is None:
    raise MissingExtra("'rllm' is not installed; run: pip install 'rllm @ git+https://github.com/rllm-org/rllm.git'")

import httpx
from rllm.eval.types import EvalOutput, Signal  # type: ignore[import-not-found]
from rllm.types import Episode, Step, Trajectory  # type: ignore[import-not-found]
from rllm.workflows.workflow import TerminationReason  # type: ignore[import-not-found]

_TERMINATIONS = {
    Reason.MAX_TURNS.value: TerminationReason.MAX_TURNS_EXCEEDED,
    Reason.CONTEXT.value: TerminationReason.MAX_PROMPT_LENGTH_EXCEEDED,
}
"""Endings that rLLM has a name for; all others become `ENV_DONE`."""
_TOO_LONG = re.compile("context", re.IGNORECASE)


class _TooLong(Exception):
    """The conversation exceeds the model's context."""


class EnvFlow:
    """Plays the episode that a row names by `task_id` and `seed`.

    A failed environment is replaced and the episode replayed (`ReplayedEpisode`). If that fails too, or the model does
    not answer, `InfrastructureError` is raised and rLLM plays the row again.

    Args:
        env: The environment, as for `agentgym.make`.
        attempts: Attempts at each turn of the environment.
        answer_s: Seconds to wait for each of the model's messages.
        arguments: The environment's arguments, the same as for the rows.
    """

    name = "agentgym"

    def __init__(self, env: str, *, attempts: int = 3, answer_s: float = 600.0, **arguments: Any):
        self._make = partial(make, env, **{"dialect": "native", **arguments})
        self._attempts, self._answer_s = attempts, answer_s

    def run(self, task: Any, config: Any) -> Episode:
        """`arun` for callers without an event loop."""
        return asyncio.run(self.arun(task, config))

    async def arun(self, task: Any, config: Any) -> Episode:
        """Play an episode with the model at `config.base_url`."""
        task_id, seed = episode_named(task.metadata, f"{__name__}.rows")
        episode = ReplayedEpisode(self._make, attempts=self._attempts)
        try:
            async with httpx.AsyncClient(timeout=self._answer_s) as client:
                opening = await episode.abegin(seed=seed, options={"task": task_id})
                replies = await self._converse(episode, opening, partial(_answer, client, config))
            return _episode(episode, replies, task.metadata)
        finally:
            await episode.env.aclose()

    async def _converse(self, episode: ReplayedEpisode, opening: list[Message], answer: Any) -> list[Message]:
        """Run the conversation until the episode is over, and return the model's messages."""
        messages, tools, replies = sendable(opening), episode.info["tools"], []
        while not episode.is_over:
            try:
                message, reason = await answer(messages, tools)
            except _TooLong:
                await episode.aend(Reason.CONTEXT)
                break
            replies.append(message)
            messages += [message, *sendable(await episode.astep(finished(message, reason)))]
        return replies


class EnvEvaluator:
    """Returns the reward of an episode of `EnvFlow`, with the reward channels as signals."""

    def evaluate(self, task: Any, episode: Episode) -> EvalOutput:
        """Return the reward that the environment assigned."""
        result = episode.metadata
        signals = [Signal(name=name, value=value) for name, value in result["channels"].items()]
        return EvalOutput(reward=result["reward"], is_correct=episode.is_correct, signals=signals)


def rows(env: str, *, dialect: str = "native", **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a data set for rLLM's `Dataset`.

    Args:
        env: The environment, as for `agentgym.make`.
        dialect: The dialect of the flow.
        options: Options of `openings`: the tasks, and the environment's other arguments, the same as for the flow.
    """
    return [
        {"question": opening.prompt[-1]["content"], **opening.named}
        for opening in openings(env, dialect=dialect, **options)
    ]


async def _answer(client: httpx.AsyncClient, config: Any, messages: list[Wire], tools: list[Any]) -> tuple[Wire, Any]:
    """Request one message of the model; return it and why the model stopped.

    There is no retry, since rLLM counts requests: one per step.
    """
    body = {"model": config.model, "messages": messages, **({"tools": tools} if tools else {})}
    try:
        response = await client.post(
            f"{config.base_url.rstrip('/')}/chat/completions", json=body, headers={"Authorization": "Bearer EMPTY"}
        )
    except httpx.HTTPError as error:
        raise InfrastructureError(f"the request to the model failed: {type(error).__name__}: {error}") from error
    if response.status_code == 400 and _TOO_LONG.search(response.text):
        raise _TooLong
    if response.is_error:
        raise InfrastructureError(
            f"the model's server answered with status {response.status_code}: {response.text[:300]}"
        )
    try:
        choice = response.json()["choices"][0]
        return _message(choice["message"]), choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InfrastructureError(
            f"the model's server did not send a chat completion: {response.text[:300]}"
        ) from error


def _message(message: Mapping[str, Any]) -> Wire:
    calls = {"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {}
    return {"role": "assistant", "content": message.get("content") or "", **calls}


def _episode(episode: ReplayedEpisode, messages: list[Message], row: Mapping[str, Any]) -> Episode:
    """Return an episode for rLLM, which fills in the tokens of each step."""
    rewards = episode.turn_rewards[: len(messages)]
    if rewards:
        rewards[-1] += sum(episode.turn_rewards[len(messages) :])
    last = len(messages) - 1
    steps = [
        Step(action=message, reward=reward, done=number == last)
        for number, (message, reward) in enumerate(zip(messages, rewards, strict=True))
    ]
    result = {"reward": episode.reward, "channels": episode.channels, "ending": episode.ending}
    return Episode(
        task=dict(row),
        trajectories=[Trajectory(name=EnvFlow.name, steps=steps, reward=episode.reward)],
        is_correct=bool(episode.info.get("is_success")),
        termination_reason=_TERMINATIONS.get(episode.ending or "", TerminationReason.ENV_DONE),
        metadata=result,
    )
