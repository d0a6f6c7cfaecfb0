"""Episodes as MCP servers: the official client sees over both transports what `Env` shows, and no reward too early."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the [serve] extra")

import httpx
from mcp import ClientSession, StdioServerParameters  # pyright: ignore[reportMissingImports]
from mcp.client.stdio import stdio_client  # pyright: ignore[reportMissingImports]
from mcp.client.streamable_http import streamable_http_client  # pyright: ignore[reportMissingImports]
from mcp.shared.exceptions import McpError  # pyright: ignore[reportMissingImports]
from mcp.shared.memory import create_connected_server_and_client_session  # pyright: ignore[reportMissingImports]
from pydantic import AnyUrl

from agentgym import make
from agentgym.core.messages import Message, ToolCall, text_of
from agentgym.core.policy import Script
from agentgym.core.trajectory import Trajectory, read_jsonl
from agentgym.interop.episodes import CalledEpisode
from agentgym.tools.mcp_server.choosing import Choice
from agentgym.tools.mcp_server.content import prompt_messages
from agentgym.tools.mcp_server.hosting import Hosting
from agentgym.tools.mcp_server.server import OPENING_URI, RESULT_URI, make_server
from tests.doc_blocks import ROOT
from tests.interop.guarantees import Guarantee, Moves, Seen, hold
from tests.interop.probe_env import PROBE
from tests.rows import each_row

pytestmark = pytest.mark.real

TOKEN = "a-token-for-this-test"
COMMAND = ["-m", "agentgym", "serve", "env"]
SEEDS = (3, 4)
COUNTER = "tests.counter_env:Counter"

Session = AbstractAsyncContextManager[ClientSession]


def native(env_id: str, seed: int) -> tuple[CalledEpisode, list[ToolCall], list[list[Message]]]:
    """Play an environment's solution in this process; return the calls and what was read after each."""
    episode = CalledEpisode(make(env_id, dialect="native"))
    script = Script(episode.env.solution(_begun(episode, seed)))
    calls: list[ToolCall] = []
    read: list[list[Message]] = []
    while not episode.is_over:
        move = script.next_move(read[-1] if read else [])
        assert isinstance(move, ToolCall)
        calls.append(move)
        read.append(episode.call(move.name, move.arguments))
    return episode, calls, read


def _begun(episode: CalledEpisode, seed: int) -> Any:
    episode.begin(seed=seed)
    return episode.env.task


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
        httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
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
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def serve(env_id: str, *options: str) -> Served:
        running.append(Served(env_id, tmp_path, *options))
        return running[-1]

    yield serve
    for server in running:
        server.stop()


class Driver:
    adapter = "mcp"
    package = "mcp"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        async def play() -> list[list[Seen]]:
            tries = [(moves, index) for index, moves in enumerate(episodes) for _ in range(attempts)]
            played = await asyncio.gather(*(seen(moves, index, seed + index) for moves, index in tries))
            return [played[at : at + attempts] for at in range(0, len(played), attempts)]

        return asyncio.run(play())


async def seen(moves: Moves, index: int, seed: int) -> Seen:
    """Play an episode, leave it, and read its record."""
    result, records = Seen(), Kept(PROBE, choice=Choice(split="train", index=index, seed=seed))
    async with create_connected_server_and_client_session(make_server(records)) as session:
        try:
            result.texts += [*map(text_of, await resource(session, OPENING_URI))]
            for move in moves:
                answer = await session.call_tool(move.name, dict(move.arguments))
                result.texts += [block.text for block in answer.content if block.type == "text"]
                result.pictures += [base64.b64decode(block.data) for block in answer.content if block.type == "image"]
        except McpError as error:
            result.error = f"McpError {error.error.code}"
    [record] = records.kept
    if not record.failed:
        result.reward, result.turn_rewards = record.reward, [turn.reward for turn in record.turns]
        result.ending = record.reason and record.reason.value
    return result


class Kept(Hosting):
    """Keeps the records of a server here instead of in a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kept: list[Trajectory] = []

    def keep(self, trajectory: Trajectory) -> None:
        self.kept.append(trajectory)


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)


async def replayed(sessions: list[ClientSession], played: list[Any]) -> list[dict[str, Any]]:
    """Make the same calls in each session, by turns; compare all that is read, and return the results."""
    for session, (episode, _, _) in zip(sessions, played, strict=True):
        assert await resource(session, OPENING_URI) == episode.opening
        assert (await session.get_prompt("opening")).messages == prompt_messages(episode.opening)
        schemas = [schema["function"] for schema in episode.env.tools.schemas]
        offered = (await session.list_tools()).tools
        assert [(tool.name, tool.description, tool.inputSchema) for tool in offered] == [
            (schema["name"], schema["description"], schema["parameters"]) for schema in schemas
        ]
    results: list[dict[str, Any]] = [{}] * len(sessions)
    for turn in range(max(len(calls) for _, calls, _ in played)):
        for number, (session, (_, calls, read)) in enumerate(zip(sessions, played, strict=True)):
            if turn < len(calls):
                answer = await session.call_tool(calls[turn].name, dict(calls[turn].arguments))
                assert [block.text for block in answer.content] == [*map(text_of, read[turn])]  # type: ignore[union-attr]
                assert (answer.structuredContent is None) == (turn + 1 < len(calls))
                results[number] = answer.structuredContent or {}
    return results


def compared(record: Trajectory, episode: CalledEpisode, read: list[list[Message]]) -> None:
    assert [turn.observation for turn in record.turns] == read
    assert [turn.reward for turn in record.turns] == episode.turn_rewards
    assert (record.reward, record.success, record.reason) == (episode.reward, True, episode.env.reason)
    assert (record.task_id, record.task_hash) == (episode.env.task.id, episode.env.task.hash)


def test_over_the_standard_streams_the_solution_of_sql_reads_and_earns_the_same(tmp_path: Path):
    played = native("sql", SEEDS[0])
    out = tmp_path / "episodes.jsonl"

    async def play() -> list[dict[str, Any]]:
        async with by_stdio("sql", "--seed", str(SEEDS[0]), "--out", str(out)) as session:
            return await replayed([session], [played])

    [result] = asyncio.run(play())
    assert (result["reward"], result["success"], result["ending"]) == (played[0].reward, True, "terminated")
    [record] = read_jsonl(out)
    compared(record, played[0], played[2])


def test_over_http_sessions_at_the_same_time_are_episodes_of_their_own(served: Callable[..., Served]):
    server = served("sql")
    played = [native("sql", seed) for seed in SEEDS]

    async def play() -> list[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            opened = [by_http(server.url, seed=seed, name=f"episode-{seed}") for seed in SEEDS]
            return await replayed([await stack.enter_async_context(context) for context in opened], played)

    assert [result["reward"] for result in asyncio.run(play())] == [episode.reward for episode, _, _ in played]
    records = {record.id: record for record in server.records()}
    for seed, (episode, _, read) in zip(SEEDS, played, strict=True):
        compared(records[f"episode-{seed}"], episode, read)


def test_a_client_without_the_token_is_refused(served: Callable[..., Served]):
    server = served(COUNTER)
    answers = [httpx.post(server.url, json={}, headers=headers) for headers in ({}, {"Authorization": "Bearer wrong"})]
    assert [answer.status_code for answer in answers] == [401, 401]


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


def test_a_mistake_is_a_result_and_an_infrastructure_failure_a_protocol_error(tmp_path: Path):
    async def play() -> None:
        async with in_process(COUNTER, tmp_path / "out") as session:
            for name, arguments in (("add", {"number": -1}), ("add", {"numbr": 1}), ("ad", {})):
                answer = await session.call_tool(name, arguments)
                assert answer.isError
                assert answer.content[0].text.startswith("Error: ")  # type: ignore[union-attr]
            for number in (14, 1):
                with pytest.raises(McpError) as caught:
                    await session.call_tool("add", {"number": number})
                assert caught.value.error.data == {"kind": "infrastructure"}
            with pytest.raises(McpError, match="has failed"):
                await resource(session, RESULT_URI)

    asyncio.run(play())
    [record] = read_jsonl(tmp_path / "out")
    assert (record.failed, record.reason, record.component, len(record.turns)) == (True, "infrastructure", "step", 3)
    assert record.error == "InfrastructureError: the server is gone"
