"""Episodes as MCP servers: the official client sees over both transports what `Env` shows, and no reward too early."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the [mcp] extra")

import httpx
from mcp import ClientSession, StdioServerParameters  # pyright: ignore[reportMissingImports]
from mcp.client.stdio import stdio_client  # pyright: ignore[reportMissingImports]
from mcp.client.streamable_http import streamable_http_client  # pyright: ignore[reportMissingImports]
from mcp.shared.exceptions import McpError  # pyright: ignore[reportMissingImports]
from mcp.shared.memory import create_connected_server_and_client_session  # pyright: ignore[reportMissingImports]
from pydantic import AnyUrl

from agentgym import make
from agentgym.core.messages import text_of
from agentgym.core.policy import Script
from agentgym.core.trajectory import Trajectory, read_jsonl
from agentgym.interop.episodes import CalledEpisode
from agentgym.tools.mcp_server.hosting import Choice, Hosting
from agentgym.tools.mcp_server.server import OPENING_URI, RESULT_URI, make_server, prompt_messages
from tests.doc_blocks import ROOT
from tests.interop.guarantees import Guarantee, Moves, Seen, hold
from tests.interop.peers import together
from tests.interop.probe_env import PROBE
from tests.rows import each_row
from tests.waiting import HANG_S

pytestmark = pytest.mark.real

TOKEN = "a-token-for-this-test"
COMMAND = ["-m", "agentgym", "serve", "env"]
COUNTER = "tests.counter_env:Counter"

Session = AbstractAsyncContextManager[ClientSession]


async def resource(session: ClientSession, uri: str) -> Any:
    return json.loads((await session.read_resource(AnyUrl(uri))).contents[0].text)  # type: ignore[union-attr]


@asynccontextmanager
async def by_stdio(env_id: str, *options: str) -> AsyncIterator[ClientSession]:
    arguments = [*COMMAND, env_id, "--mcp", "--stdio", *options]
    program = StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)
    async with stdio_client(program) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def by_http(url: str, token: str = TOKEN, **query: Any) -> AsyncIterator[ClientSession]:
    query_text = "&".join(f"{name}={value}" for name, value in query.items())
    async with (
        httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=HANG_S) as http,
        streamable_http_client(f"{url}?{query_text}", http_client=http) as (incoming, outgoing, _),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        yield session


def in_process(env_id: str, out: Path, **options: Any) -> Session:
    return create_connected_server_and_client_session(make_server(Hosting(env_id, out=out, **options)))


class Served:
    """A server over HTTP, in a process of its own."""

    def __init__(self, env_id: str, folder: Path, *options: str):
        self.out = folder / "episodes.jsonl"
        (folder / "token").write_text(TOKEN, encoding="utf-8")
        command = [sys.executable, *COMMAND, env_id, "--mcp", "--token-file", str(folder / "token")]
        self.process = subprocess.Popen(
            [*command, "--out", str(self.out), *options], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().removeprefix("Listening on ").strip()

    def records(self) -> list[Trajectory]:
        return [*read_jsonl(self.out)] if self.out.is_file() else []

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(HANG_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Driver:
    adapter = "mcp"
    package = "mcp"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        return together(lambda index: seen(episodes[index], index, seed + index), len(episodes), attempts)


async def seen(moves: Moves, index: int, seed: int) -> Seen:
    """Play an episode, leave it, and read its record."""
    result, records = Seen(), []
    hosting = Hosting(PROBE, choice=Choice(split="train", index=index, seed=seed))
    hosting.keep = records.append  # type: ignore[method-assign]
    async with create_connected_server_and_client_session(make_server(hosting)) as session:
        try:
            result.texts += [*map(text_of, await resource(session, OPENING_URI))]
            for move in moves:
                answer = await session.call_tool(move.name, dict(move.arguments))
                result.texts += [block.text for block in answer.content if block.type == "text"]
                result.pictures += [base64.b64decode(block.data) for block in answer.content if block.type == "image"]
        except McpError as error:
            result.error = f"McpError {error.error.code}"
    [record] = records
    if not record.failed:
        result.reward, result.turn_rewards = record.reward, [turn.reward for turn in record.turns]
        result.ending = record.reason and record.reason.value
    return result


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)


async def solved(session: ClientSession, seed: int) -> CalledEpisode:
    """Play the solution of `sql` here and in a session at the same time, and compare all that is read."""
    episode = CalledEpisode(make("sql", dialect="native"))
    opening = episode.begin(seed=seed)
    assert await resource(session, OPENING_URI) == opening
    assert (await session.get_prompt("opening")).messages == prompt_messages(opening)
    offered = [(tool.name, tool.description, tool.inputSchema) for tool in (await session.list_tools()).tools]
    assert offered == [tuple(schema["function"].values()) for schema in episode.env.tools.schemas]
    script, read = Script(episode.env.solution(episode.env.task)), []
    while not episode.is_over:
        move: Any = script.next_move(read)
        read = episode.call(move.name, move.arguments)
        answer = await session.call_tool(move.name, dict(move.arguments))
        assert [block.text for block in answer.content] == [*map(text_of, read)]  # type: ignore[union-attr]
        result = answer.structuredContent
        assert (result and result["reward"]) == (episode.reward if episode.is_over else None)
    return episode


def compared(record: Trajectory, episode: CalledEpisode) -> None:
    assert [turn.reward for turn in record.turns] == episode.turn_rewards
    assert (record.reward, record.success, record.reason) == (episode.reward, True, episode.env.reason)
    assert (record.task_id, record.task_hash) == (episode.env.task.id, episode.env.task.hash)


def test_over_the_standard_streams_the_solution_of_sql_reads_and_earns_the_same(tmp_path: Path):
    out = tmp_path / "episodes.jsonl"

    async def play() -> CalledEpisode:
        async with by_stdio("sql", "--seed", "3", "--out", str(out)) as session:
            return await solved(session, 3)

    episode = asyncio.run(play())
    [record] = read_jsonl(out)
    compared(record, episode)


def test_over_http_sessions_at_the_same_time_are_episodes_of_their_own(tmp_path: Path):
    server = Served("sql", tmp_path)

    async def play(seed: int) -> CalledEpisode:
        async with by_http(server.url, seed=seed, name=f"episode-{seed}") as session:
            return await solved(session, seed)

    async def both() -> list[CalledEpisode]:
        return [*await asyncio.gather(play(3), play(4))]

    try:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            assert httpx.post(server.url, json={}, headers=headers).status_code == 401
        episodes = asyncio.run(both())
        records = {record.id: record for record in server.records()}
    finally:
        server.stop()
    for name, episode in zip(("episode-3", "episode-4"), episodes, strict=True):
        compared(records[name], episode)


def test_the_reward_is_hidden_until_the_end(tmp_path: Path):
    async def play() -> None:
        async with in_process(COUNTER, tmp_path / "out", choice=Choice("counter/train/1")) as session:
            answers = [await session.call_tool("add", {"number": 2})]
            with pytest.raises(McpError, match="still running"):
                await resource(session, RESULT_URI)
            answers.append(await session.call_tool("done", {}))
            assert [answer.structuredContent is None for answer in answers] == [True, False]
            assert (await resource(session, RESULT_URI)) == answers[1].structuredContent
            late = await session.call_tool("add", {"number": 1})
            assert late.structuredContent == answers[1].structuredContent
            assert answers[1].structuredContent == {
                "ended": True,
                "ending": "terminated",
                "reason": "answered",
                "reward": 1.0,
                "turn_rewards": [0.0, 1.0],
                "success": True,
                "channels": {"outcome": 1.0, "format": 2.0, "final": 1.0},
            }

    asyncio.run(play())
    [record] = read_jsonl(tmp_path / "out")
    assert (len(record.turns), record.reward, record.policy) == (2, 1.0, "mcp:mcp")
