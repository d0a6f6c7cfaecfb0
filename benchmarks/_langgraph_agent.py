"""A typical agent: LangGraph, the OpenAI client, tools from an MCP server. It is unaware of training.

Reads one JSON object per line, `{"id", "model_url", "api_key", "mcp_url", "mcp_token"}`, processes them concurrently,
and writes `{"id", "error"}` for each.
"""

from __future__ import annotations

import asyncio
import json
import operator
import sys
from typing import Annotated, Any, TypedDict

import httpx
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingImports]
from mcp import ClientSession  # pyright: ignore[reportMissingImports]
from mcp.client.streamable_http import streamable_http_client  # pyright: ignore[reportMissingImports]
from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # pyright: ignore[reportMissingImports]
from pydantic import AnyUrl

AT_ONCE = 12
TURNS = 12
HTTP = DefaultAsyncHttpxClient(timeout=120)


class State(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


def agent(client: AsyncOpenAI, session: ClientSession, tools: list[dict[str, Any]]) -> Any:
    """Return the usual graph: ask the model and run its tool calls until it makes none."""

    async def model(state: State) -> State:
        answer = await client.chat.completions.create(model="policy", messages=state["messages"], tools=tools)  # type: ignore[arg-type]
        return {"messages": [answer.choices[0].message.model_dump(exclude_none=True)]}

    async def act(state: State) -> State:
        results: list[dict[str, Any]] = []
        for call in state["messages"][-1]["tool_calls"]:
            result = await session.call_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            text = "".join(block.text for block in result.content if block.type == "text")
            results.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        return {"messages": results}

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("act", act)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "act" if state["messages"][-1].get("tool_calls") else END)
    graph.add_edge("act", "model")
    return graph.compile()


async def work(job: dict[str, Any]) -> None:
    """Work on the task in the server's opening."""
    client = AsyncOpenAI(base_url=job["model_url"], api_key=job["api_key"], http_client=HTTP, max_retries=0)
    headers = {"Authorization": f"Bearer {job['mcp_token']}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=120, verify=False) as http,
        streamable_http_client(job["mcp_url"], http_client=http) as (incoming, outgoing, _),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        offered = (await session.list_tools()).tools
        # The resource has roles, while an MCP prompt cannot hold a system message.
        [opening] = (await session.read_resource(AnyUrl("agentgym://opening"))).contents
        tools = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.inputSchema},
            }
            for tool in offered
        ]
        messages = json.loads(opening.text)  # type: ignore[union-attr]
        await agent(client, session, tools).ainvoke({"messages": messages}, {"recursion_limit": 2 * TURNS + 1})


async def reported(job: dict[str, Any], free: asyncio.Semaphore) -> None:
    async with free:
        error = None
        try:
            await work(job)
        except Exception as problem:  # e.g. LangGraph's turn limit
            first: BaseException = problem
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            error = f"{type(first).__name__}: {first}"
    sys.stdout.write(json.dumps({"id": job["id"], "error": error}) + "\n")
    sys.stdout.flush()


async def main() -> None:
    free, running = asyncio.Semaphore(AT_ONCE), set()
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        task = asyncio.create_task(reported(json.loads(line), free))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(main())
