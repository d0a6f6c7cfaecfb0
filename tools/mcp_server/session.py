"""`McpSession`: the episode of one client."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from gymnasium.error import ResetNeeded
from mcp import types  # pyright: ignore[reportMissingImports]
from mcp.shared.exceptions import McpError  # pyright: ignore[reportMissingImports]

from agentgym.endings import Reason
from agentgym.engine.authoring import Authoring
from agentgym.engine.threads import blocking
from agentgym.errors import AgentGymError, InfrastructureError, TaskError, UsageError
from agentgym.foreign.errors import describe, ends_work, running_task
from agentgym.interop.recorded import RecordedEpisode
from agentgym.messages import Message, text_of
from agentgym.rollout.deadlines import within
from agentgym.tools.mcp_server.content import result_blocks
from agentgym.tools.mcp_server.hosting import Hosting

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

SAY = "say"
"""The tool that sends plain text, in environments that respond to text."""
_SAY = types.Tool(
    name=SAY,
    description="Say something without using another tool, such as an answer or a question.",
    inputSchema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


@dataclass(frozen=True)
class Caller:
    """The client that sent a request."""

    name: str
    """The client's own name for itself."""
    query: Mapping[str, str]
    """The query of its URL, which may select the episode."""


class McpSession:
    """One client's episode. It begins with the first request that needs it and is recorded when it ends.

    Requests run one after another; each call is a turn. The model's mistakes are results with `isError`; failures
    around the model are protocol errors, and the record is marked as failed.
    """

    def __init__(self, hosting: Hosting):
        self._hosting = hosting
        self._number = hosting.next_number()
        self._turn = asyncio.Lock()
        self._episode: RecordedEpisode | None = None
        self._is_kept = False
        self._used_at = time.monotonic()

    async def tools(self, caller: Caller) -> list[types.Tool]:
        """Return the tools of the episode."""
        async with self._playing(caller) as episode:
            assert episode.trajectory is not None
            functions = [schema["function"] for schema in episode.trajectory.tools]
            return [*map(_tool, functions), *([_SAY] if _answers(episode) else [])]

    async def opening(self, caller: Caller) -> list[Message]:
        """Return the messages that the episode began with."""
        async with self._playing(caller) as episode:
            return episode.opening

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Any:
        """Play a turn that calls a tool."""
        async with self._playing(caller) as episode:
            if name == SAY and _answers(episode):
                work = episode.astep(str(arguments.get("text", "")))
            else:
                work = episode.acall(name, arguments)
            messages = await self._limited(work, Reason.STEP_TIME, "a tool call")
            self._keep_if_over(episode)
            is_error = any(text_of(message).startswith("Error: ") for message in messages[:1])
            result = result_of(episode) if episode.is_over else None
            return types.CallToolResult(content=result_blocks(messages), structuredContent=result, isError=is_error)

    async def result(self, caller: Caller) -> dict[str, Any]:
        """Return the episode's ending and reward. Raises a protocol error before its end."""
        async with self._playing(caller) as episode:
            if not episode.is_over:
                raise _error("the episode is still running and has no result yet", types.INVALID_REQUEST, "usage")
            return result_of(episode)

    async def close(self) -> None:
        """End the episode if it still runs, so that it is graded and recorded. Never raises."""
        episode = self._episode
        if episode is None:
            return
        try:
            if not episode.is_over:
                await self._limited(episode.aend(self._why_closed()), Reason.STEP_TIME, "grading an episode")
        except Exception as error:
            _log.warning("an abandoned episode could not be graded: %s", describe(error))
        self._keep_if_over(episode)
        try:
            await self._limited(episode.env.aclose(), Reason.STEP_TIME, "closing an environment")
        except Exception as error:
            _log.warning("an environment could not be closed: %s", describe(error))

    def _why_closed(self) -> Reason:
        if self._hosting.is_stopping:
            return Reason.CANCELLED
        return Reason.TIME if time.monotonic() - self._used_at >= self._hosting.idle_s else Reason.GAVE_UP

    @asynccontextmanager
    async def _playing(self, caller: Caller) -> AsyncIterator[RecordedEpisode]:
        """Give one request at a time the running episode. Errors become protocol errors."""
        async with self._turn:
            self._used_at = time.monotonic()
            try:
                yield await self._running_episode(caller)
            except BaseException as error:
                if self._episode is not None:
                    self._keep_if_over(self._episode)
                if ends_work(error, running_task()) or isinstance(error, McpError):
                    raise
                raise _protocol_error(error) from error
            finally:
                self._used_at = time.monotonic()

    async def _running_episode(self, caller: Caller) -> RecordedEpisode:
        if self._episode is not None:
            if self._episode.has_failed:
                raise InfrastructureError("the episode of this session has failed; open another session")
            return self._episode
        hosting = self._hosting
        choice = hosting.choice.for_session(self._number).with_query(caller.query)
        env = await self._limited(blocking.run(hosting.make), Reason.RESET_TIME, "making an environment")
        episode = RecordedEpisode(
            env, env_id=hosting.env_id, env_kwargs=hosting.arguments, policy=f"mcp:{caller.name}", id=choice.name
        )
        self._episode = episode
        beginning = episode.abegin(seed=choice.seed, options=choice.options)
        await self._limited(beginning, Reason.RESET_TIME, "beginning an episode")
        return episode

    async def _limited(self, work: Awaitable[_T], reason: Reason, what: str) -> _T:
        return await within(work, self._hosting.request_s, reason, what)

    def _keep_if_over(self, episode: RecordedEpisode) -> None:
        if episode.is_over and not self._is_kept and episode.trajectory is not None:
            self._is_kept = True
            self._hosting.keep(episode.trajectory)


def result_of(episode: RecordedEpisode) -> dict[str, Any]:
    """Return an episode's ending and reward."""
    record = episode.trajectory
    assert record is not None
    if record.failed:
        return {"ended": True, "ending": "failed", "reason": episode.ending, "error": record.error}
    return {
        "ended": True,
        "ending": record.ending,
        "reason": episode.ending,
        "reward": record.reward,
        "turn_rewards": [turn.reward for turn in record.turns],
        "success": record.success,
        "channels": episode.channels,
    }


def _answers(episode: RecordedEpisode) -> bool:
    """Whether the environment responds to text and has no tool called `say`."""
    env = episode.env
    return type(env).respond is not Authoring.respond and SAY not in env.tools


def _tool(function: Mapping[str, Any]) -> types.Tool:
    return types.Tool(name=function["name"], description=function["description"], inputSchema=function["parameters"])


def _protocol_error(error: BaseException) -> McpError:
    if isinstance(error, UsageError | TaskError):
        return _error(str(error), types.INVALID_PARAMS, "usage")
    if isinstance(error, AgentGymError | ResetNeeded):
        return _error(str(error), types.INTERNAL_ERROR, "infrastructure")
    return _error(describe(error), types.INTERNAL_ERROR, "infrastructure")


def _error(message: str, code: int, kind: str) -> McpError:
    return McpError(types.ErrorData(code=code, message=message, data={"kind": kind}))
