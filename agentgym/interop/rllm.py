"""rLLM (0.3, which is on no package index): episodes of an environment as an `AgentFlow`, and their `Evaluator`.

`docs/interop/rllm.md` has a whole example. rLLM gives a flow the address of a model and records what the model says
there; the flow holds the conversation, in which each of the model's messages is a turn of ours.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from agentgym.endings import Reason
from agentgym.errors import InfrastructureError, MissingExtra
from agentgym.interop.chat import Wire, sendable
from agentgym.interop.openings import episode_named, openings
from agentgym.interop.replayed import ReplayedEpisode
from agentgym.messages import Message
from agentgym.registry import make

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
"""Endings that rLLM has a name for; all others are those of an environment that is done."""
_TOO_LONG = re.compile("context", re.IGNORECASE)


class _TooLong(Exception):
    """The conversation does not fit the model's context."""


class EnvFlow:
    """Plays the episode that a row names by `task_id` and `seed`.

    An environment that breaks is replaced, and the episode played on (`ReplayedEpisode`); if that fails too, or the
    model cannot be asked, `InfrastructureError` is raised, and rLLM plays the row again.

    Args:
        env: The environment, as for `agentgym.make`.
        attempts: How often each turn of the environment is tried.
        answer_s: Seconds to wait for each of the model's messages.
        arguments: The environment's arguments, the same as of the rows.
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
                said = await self._conversed(episode, opening, partial(_answer, client, config))
            return _episode(episode, said, task.metadata)
        finally:
            await episode.env.aclose()

    async def _conversed(self, episode: ReplayedEpisode, opening: list[Message], answer: Any) -> list[Message]:
        """Hold the conversation until the episode is over, and return what the model said."""
        messages, tools, said = sendable(opening), episode.info["tools"], []
        while not episode.is_over:
            try:
                message = await answer(messages, tools)
            except _TooLong:
                await episode.aend(Reason.CONTEXT)
                break
            said.append(message)
            messages += [message, *sendable(await episode.astep(message))]
        return said


class EnvEvaluator:
    """Tells rLLM what an episode of `EnvFlow` earned, with the reward channels as signals."""

    def evaluate(self, task: Any, episode: Episode) -> EvalOutput:
        """Return the episode's reward; the environment has graded it."""
        told = episode.metadata
        signals = [Signal(name=name, value=value) for name, value in told["channels"].items()]
        return EvalOutput(reward=told["reward"], is_correct=episode.is_correct, signals=signals)


def rows(env: str, *, dialect: str = "native", **chosen: Any) -> list[dict[str, Any]]:
    """Return the rows of a data set for rLLM's `Dataset`.

    Args:
        env: The environment, as for `agentgym.make`.
        dialect: As of the flow.
        chosen: The tasks and the environment's other arguments, the same as of the flow, as for `openings`.
    """
    return [
        {"question": opening.prompt[-1]["content"], **opening.named}
        for opening in openings(env, dialect=dialect, **chosen)
    ]


async def _answer(client: httpx.AsyncClient, config: Any, messages: list[Wire], tools: list[Any]) -> Wire:
    """Ask the model once. Never again: rLLM counts what it was asked, one request for each step."""
    asked = {"model": config.model, "messages": messages, **({"tools": tools} if tools else {})}
    try:
        got = await client.post(
            f"{config.base_url.rstrip('/')}/chat/completions", json=asked, headers={"Authorization": "Bearer EMPTY"}
        )
    except httpx.HTTPError as error:
        raise InfrastructureError(f"the model cannot be asked: {type(error).__name__}: {error}") from error
    if got.status_code == 400 and _TOO_LONG.search(got.text):
        raise _TooLong
    if got.is_error:
        raise InfrastructureError(f"the model's server answered with status {got.status_code}: {got.text[:300]}")
    try:
        return _message(got.json()["choices"][0]["message"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InfrastructureError(f"the model's server answers with no chat completion: {got.text[:300]}") from error


def _message(said: Mapping[str, Any]) -> Wire:
    calls = {"tool_calls": said["tool_calls"]} if said.get("tool_calls") else {}
    return {"role": "assistant", "content": said.get("content") or "", **calls}


def _episode(episode: ReplayedEpisode, said: list[Message], row: Mapping[str, Any]) -> Episode:
    """Return what rLLM keeps; it fills in the tokens of each step."""
    rewards = episode.turn_rewards[: len(said)]
    if rewards:
        rewards[-1] += sum(episode.turn_rewards[len(said) :])
    last = len(said) - 1
    steps = [
        Step(action=message, reward=reward, done=number == last)
        for number, (message, reward) in enumerate(zip(said, rewards, strict=True))
    ]
    told = {"reward": episode.reward, "channels": episode.channels, "ending": episode.ending}
    return Episode(
        task=dict(row),
        trajectories=[Trajectory(name=EnvFlow.name, steps=steps, reward=episode.reward)],
        is_correct=bool(episode.info.get("is_success")),
        termination_reason=_TERMINATIONS.get(episode.ending or "", TerminationReason.ENV_DONE),
        metadata=told,
    )
