"""The MCP server of an environment: tools, the opening as a prompt and a resource, and the result as a resource."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import types  # pyright: ignore[reportMissingImports]
from mcp.server.lowlevel import Server  # pyright: ignore[reportMissingImports]
from mcp.shared.exceptions import McpError  # pyright: ignore[reportMissingImports]
from pydantic import AnyUrl

from agentgym import __version__
from agentgym.tools.mcp_server.content import prompt_messages
from agentgym.tools.mcp_server.hosting import Hosting
from agentgym.tools.mcp_server.session import Caller, McpSession

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
