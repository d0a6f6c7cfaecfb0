"""Real agents that know nothing of us work in our environments while their tokens are recorded."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp: not in this environment (see .ci/peers)")

from agentgym import make
from agentgym.core.dialects import get_dialect
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.policy import Script
from agentgym.core.toolset import Toolset
from agentgym.core.trajectory import read_jsonl
from agentgym.interop.episodes import RecordedEpisode
from agentgym.interop.served.gateway import Gateway, GatewaySession, GatewaySettings, serving
from agentgym.interop.trainers.mini_swe import DONE, EpisodeShell
from agentgym.rollout import Limits
from tests.doc_blocks import ROOT
from tests.interop.peers import needs
from tests.interop.speaking import Speaker, halving
from tests.interop.test_gateway import SEED, USER, compared
from tests.interop.test_mcp_out import COMMAND, TOKEN, Served
from tests.waiting import eventually

pytestmark = [pytest.mark.peers, *needs("mcp", "openai", "agents", "langgraph", "langchain_openai", "minisweagent")]


@pytest.fixture
def session() -> Iterator[GatewaySession]:
    gateway = Gateway(Speaker(halving))
    with serving(gateway):
        yield gateway.session("episode")


def test_an_agent_of_the_openai_agents_sdk_plays_through_mcp(session: GatewaySession, tmp_path: Path):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled  # pyright: ignore[reportMissingImports]
    from agents.mcp import MCPServerStdio  # pyright: ignore[reportMissingImports]
    from openai import AsyncOpenAI  # pyright: ignore[reportMissingImports]

    set_tracing_disabled(True)
    out = tmp_path / "episodes.jsonl"
    arguments = [*COMMAND, "guess", "--mcp", "--stdio", "--seed", str(SEED), "--out", str(out)]

    async def play() -> str:
        params: Any = {"command": sys.executable, "args": arguments, "cwd": str(ROOT)}
        client = AsyncOpenAI(base_url=session.base_url, api_key=session.api_key)
        async with client, MCPServerStdio(params, client_session_timeout_seconds=60) as server:
            instructions, task = (message.content.text for message in (await server.get_prompt("opening")).messages)  # type: ignore[union-attr]
            model = OpenAIChatCompletionsModel("policy", client)
            agent = Agent("player", instructions=instructions, model=model, mcp_servers=[server])
            return str((await Runner.run(agent, task, max_turns=20)).final_output)

    assert asyncio.run(play()) == "Found it."
    [record] = read_jsonl(out)
    [row] = session.end(record)
    compared(row)


def test_a_streaming_model_of_langchain_plays(session: GatewaySession):
    from langchain_core.messages import ToolMessage  # pyright: ignore[reportMissingImports]
    from langchain_openai import ChatOpenAI  # pyright: ignore[reportMissingImports]

    episode = RecordedEpisode(make("guess", dialect="native"), env_id="agentgym/guess-v0")
    messages: list[Any] = [*episode.begin(seed=SEED)]
    options: Any = {"use_responses_api": False, "streaming": True}
    model = ChatOpenAI(model="policy", base_url=session.base_url, api_key=session.api_key, **options)
    model = model.bind_tools(episode.env.tools.schemas)
    while True:
        messages.append(message := model.invoke(messages))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            [result] = episode.call(call["name"], call["args"])
            messages.append(ToolMessage(text_of(result), tool_call_id=call["id"]))
    episode.end()
    assert episode.trajectory is not None
    [row] = session.end(episode.trajectory)
    compared(row)


def test_the_client_of_openai_raises_the_errors_it_has_for_them(session: GatewaySession):
    import openai  # pyright: ignore[reportMissingImports]

    wrong = [(session.api_key, {"n": 2}, openai.BadRequestError), ("wrong", {}, openai.AuthenticationError)]
    for key, options, error in wrong:
        with openai.OpenAI(base_url=session.base_url, api_key=key, max_retries=0) as client, pytest.raises(error):
            client.chat.completions.create(model="p", messages=[USER], **options)  # type: ignore[call-overload]


def test_mini_swe_agent_works_in_a_repository():
    from minisweagent.agents.default import DefaultAgent  # pyright: ignore[reportMissingImports]
    from minisweagent.models.litellm_model import LitellmModel  # pyright: ignore[reportMissingImports]

    env = make("swe", dialect="native")
    episode = RecordedEpisode(env, env_id="agentgym/swe-v0")
    shell = EpisodeShell(episode, submit="submit")
    task = shell.begin(seed=0)
    commands = iter([*edits(env), f"echo {DONE}"])
    gateway = Gateway(Speaker(lambda _: bash(next(commands))), GatewaySettings(limits=Limits(max_new_tokens=10_000)))
    with serving(gateway):
        session = gateway.session("episode")
        options = {"api_base": session.base_url, "api_key": session.api_key, "drop_params": True}
        model = LitellmModel(model_name="openai/policy", model_kwargs=options, cost_tracking="ignore_errors")
        agent = DefaultAgent(model, shell, system_template="You work.", instance_template="{{task}}", step_limit=20)
        assert agent.run(task)["exit_status"] == "Submitted"
        record = episode.trajectory
        assert record is not None
        [row] = session.end(record)
    env.close()
    assert (row.success, record.success, row.reward) == (True, True, pytest.approx(record.reward))
    assert len(row.turns) == len(record.turns)
    assert row.tokens is not None
    assert [row.tokens.loss_mask[turn.span[0]] for turn in row.turns if turn.span] == [1] * len(row.turns)


def bash(command: str) -> str:
    return get_dialect("hermes").render("", [ToolCall("bash", {"command": command})], Toolset(()))


def edits(env: Any) -> list[str]:
    """Return the edits of a task's solution as shell commands."""
    script, read = Script(env.solution(env.task)), []
    commands = []
    while isinstance(move := script.next_move(read), ToolCall) and move.name != "submit":
        if move.name == "edit":
            arguments = dict(move.arguments)
            replace = "import sys; p, a, b = sys.argv[1:]; t = open(p).read(); open(p, 'w').write(t.replace(a, b))"
            commands.append(
                shlex.join(["python3", "-c", replace, arguments["path"], arguments["old"], arguments["new"]])
            )
    return commands


def test_an_agent_of_langgraph_plays_through_mcp(session: GatewaySession, tmp_path: Path):
    from benchmarks import _langgraph_agent

    server = Served("guess", tmp_path, "--seed", str(SEED))
    job = {"id": "x", "model_url": session.base_url, "api_key": session.api_key, "mcp_url": server.url}

    async def play() -> None:
        async with _langgraph_agent.HTTP:  # closed here, or the garbage collector would complain in another test
            await _langgraph_agent.work({**job, "mcp_token": TOKEN})

    try:
        asyncio.run(play())
        assert eventually(lambda: bool(server.records()))
    finally:
        server.stop()
    [record] = server.records()
    [row] = session.end(record)
    compared(row)
