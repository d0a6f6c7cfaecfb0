"""Real agents that know nothing of us work in our environments while their tokens are recorded."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp: not in this environment (see .ci/peers)")

from agentgym import make
from agentgym.core.dialects import get_dialect
from agentgym.core.messages import ToolCall
from agentgym.core.policy import Script
from agentgym.core.toolset import Toolset
from agentgym.interop.episodes import RecordedEpisode
from agentgym.interop.served.gateway import Gateway, GatewaySession, GatewaySettings, serving
from agentgym.interop.trainers.mini_swe import DONE, EpisodeShell
from agentgym.rollout import Limits
from tests.interop.peers import needs
from tests.interop.speaking import Speaker, halving
from tests.interop.test_gateway import SEED, compared
from tests.interop.test_mcp_out import TOKEN, Served
from tests.waiting import eventually

LOOK = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {"at": {}}}}
SEEN = ("A tree.", "A lake.")
pytestmark = [pytest.mark.peers, *needs("mcp", "openai", "agents", "langgraph", "minisweagent")]


@pytest.fixture
def session() -> Iterator[GatewaySession]:
    gateway = Gateway(Speaker(halving))
    with serving(gateway):
        yield gateway.session("episode")


def call(at: str) -> str:
    return f'<tool_call>\n{{"name": "look", "arguments": {{"at": "{at}"}}}}\n</tool_call>'


def looking(conversation: str) -> str:
    """Look twice at once, after some thought; look again; answer."""
    if SEEN[0] not in conversation:
        return f"<think>\nFirst the hill.\n</think>\n\nI look.\n{call('hill')}\n{call('shore')}"
    return call("lake") if SEEN[1] not in conversation else "<think>Well.</think> A tree and a lake."


def test_the_client_of_openai_works_through_streamed_chat_completions():
    from openai import OpenAI  # pyright: ignore[reportMissingImports]

    gateway = Gateway(Speaker(looking))
    history: list[Any] = [{"role": "user", "content": "What is there?"}]
    with serving(gateway):
        session = gateway.session("one")
        with OpenAI(base_url=session.base_url, api_key=session.api_key) as client:
            for result in (*SEEN, None):
                options: Any = {"tools": [{"type": "function", "function": LOOK}], "logprobs": True}
                options["stream_options"] = {"include_usage": True}
                with client.chat.completions.stream(model="p", messages=history, **options) as events:
                    kinds = {event.type for event in events}
                    completion: Any = events.get_final_completion()
                [choice] = completion.choices
                assert kinds >= {"chunk", "content.done" if result is None else "tool_calls.function.arguments.done"}
                # The token that ends a turn has no text.
                assert len(choice.logprobs.content) == completion.usage.completion_tokens - 1
                history.append(choice.message.model_dump(exclude_none=True))
                calls = choice.message.tool_calls or []
                history += [{"role": "tool", "tool_call_id": call.id, "content": result} for call in calls]
        [row] = session.reward(1.0)
    assert len(row.turns) == 3


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
