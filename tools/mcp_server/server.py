"""The MCP server of an environment: tools, the opening as a prompt and a resource, and the result as a resource.

It runs over the standard streams of this process, or in the web application (`app.py`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, TypeVar

import anyio
from gymnasium.error import ResetNeeded
from mcp import types  # pyright: ignore[reportMissingImports]
from mcp.server.lowlevel import Server  # pyright: ignore[reportMissingImports]
from mcp.server.stdio import stdio_server  # pyright: ignore[reportMissingImports]
from mcp.shared.exceptions import McpError  # pyright: ignore[reportMissingImports]
from pydantic import AnyUrl

from agentgym import __version__
from agentgym.base.errors import AgentGymError, InfrastructureError, TaskError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.authoring import Authoring
from agentgym.core.engine.threads import blocking
from agentgym.core.foreign import describe, ends_work, running_task
from agentgym.core.messages import Message, text_of
from agentgym.interop.episodes import RecordedEpisode
from agentgym.rollout.limits import within
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


OPENING = "opening"
"""The name of the prompt."""
OPENING_URI = "agentgym://opening"
"""The resource with the opening messages, as JSON."""
RESULT_URI = "agentgym://result"
"""The resource with the episode's ending and reward, as JSON; an error before the end."""
_INSTRUCTIONS = (
    f"An episode of a tool-use environment. The prompt {OPENING!r} states the task; solve it by calling tools. The "
    "session is the episode: it is graded when it ends by itself, or when you close the session."
)

Result = Awaitable[types.ServerResult]


def make_server(hosting: Hosting) -> Server[McpSession]:
    """Return the server. Each of its sessions is one episode."""

    @asynccontextmanager
    async def session_of(_: Any) -> AsyncIterator[McpSession]:
        session = McpSession(hosting)
        try:
            yield session
        finally:
            with anyio.CancelScope(shield=True):
                await session.close()

    server: Server[McpSession] = Server(
        f"agentgym {hosting.env_id}", __version__, instructions=_INSTRUCTIONS, lifespan=session_of
    )
    # The SDK's decorators turn every exception of a tool into a result that the model reads, even a failed episode.
    # These handlers keep the model's mistakes and failures apart.
    server.request_handlers |= _handlers(server)
    return server


def _handlers(server: Server[McpSession]) -> dict[type, Callable[..., Result]]:
    """Return the request handlers by type of request."""

    async def list_tools(_: types.ListToolsRequest) -> types.ServerResult:
        session, caller = _caller(server)
        return types.ServerResult(types.ListToolsResult(tools=await session.tools(caller)))

    async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
        session, caller = _caller(server)
        params = request.params
        return types.ServerResult(await session.call(params.name, params.arguments or {}, caller))

    async def list_prompts(_: types.ListPromptsRequest) -> types.ServerResult:
        prompt = types.Prompt(name=OPENING, description="The episode's task, and how to play it.")
        return types.ServerResult(types.ListPromptsResult(prompts=[prompt]))

    async def get_prompt(request: types.GetPromptRequest) -> types.ServerResult:
        if request.params.name != OPENING:
            raise _unknown("prompt", request.params.name, [OPENING])
        session, caller = _caller(server)
        messages = prompt_messages(await session.opening(caller))
        return types.ServerResult(types.GetPromptResult(messages=messages))

    async def list_resources(_: types.ListResourcesRequest) -> types.ServerResult:
        return types.ServerResult(types.ListResourcesResult(resources=[_resource(OPENING_URI), _resource(RESULT_URI)]))

    async def read_resource(request: types.ReadResourceRequest) -> types.ServerResult:
        session, caller = _caller(server)
        reading = {OPENING_URI: session.opening, RESULT_URI: session.result}.get(str(request.params.uri))
        if reading is None:
            raise _unknown("resource", str(request.params.uri), [OPENING_URI, RESULT_URI])
        text = json.dumps(await reading(caller))
        contents = types.TextResourceContents(uri=request.params.uri, mimeType="application/json", text=text)
        return types.ServerResult(types.ReadResourceResult(contents=[contents]))

    return {
        types.ListToolsRequest: list_tools,
        types.CallToolRequest: call_tool,
        types.ListPromptsRequest: list_prompts,
        types.GetPromptRequest: get_prompt,
        types.ListResourcesRequest: list_resources,
        types.ReadResourceRequest: read_resource,
    }


def _caller(server: Server[McpSession]) -> tuple[McpSession, Caller]:
    """Return the session and the caller of the running request."""
    context = server.request_context
    params = context.session.client_params
    query = {} if context.request is None else dict(context.request.query_params)
    return context.lifespan_context, Caller("unknown" if params is None else params.clientInfo.name, query)


def _resource(uri: str) -> types.Resource:
    return types.Resource(uri=AnyUrl(uri), name=uri.rpartition("/")[2], mimeType="application/json")


def _unknown(kind: str, name: str, names: list[str]) -> McpError:
    message = f"there is no {kind} {name!r}; there is: {', '.join(names)}"
    return McpError(types.ErrorData(code=types.INVALID_PARAMS, message=message))


def blocks_of(message: Mapping[str, Any]) -> list[types.ContentBlock]:
    """Return a message's text and pictures (PNG)."""
    content = message.get("content") or ""
    if not isinstance(content, list):
        return [_text(text_of(message))]
    return [_block(block) for block in content if block.get("type") == "text" or block.get("base64")]


def result_blocks(messages: Iterable[Mapping[str, Any]]) -> list[types.ContentBlock]:
    """Return the content that a policy reads after a call: the result, and any other messages."""
    return [block for message in messages for block in blocks_of(message)]


def prompt_messages(opening: Sequence[Message]) -> list[types.PromptMessage]:
    """Return opening messages as an MCP prompt, which has only user and assistant roles.

    Each content block becomes its own message.
    """
    return [
        types.PromptMessage(role="assistant" if message.get("role") == "assistant" else "user", content=block)
        for message in opening
        for block in blocks_of(message)
    ]


def _block(block: Mapping[str, Any]) -> types.ContentBlock:
    if block.get("type") == "text":
        return _text(str(block.get("text") or ""))
    return types.ImageContent(type="image", data=block["base64"], mimeType="image/png")


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def serve_stdio(hosting: Hosting) -> None:
    """Serve until the client closes the input. Anything that an environment prints goes to stderr."""
    anyio.run(_serve, hosting)


async def _serve(hosting: Hosting) -> None:
    # The client reads every line of the output as a message, so nothing else may write there.
    out = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with os.fdopen(out, "wb") as raw:
        output = anyio.wrap_file(TextIOWrapper(raw, encoding="utf-8"))
        async with stdio_server(stdout=output) as (incoming, outgoing):
            server = make_server(hosting)
            await server.run(incoming, outgoing, server.create_initialization_options())
