"""The programs that speak the Responses API, and OpenAI's own client for both APIs, in front of the gateway."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp: not in this environment (see .ci/peers)")

from agentgym import make
from agentgym.interop.gateway import Gateway, GatewaySession, serving
from agentgym.interop.recorded import RecordedEpisode
from agentgym.messages import text_of
from agentgym.trajectory import read_jsonl
from tests.doc_blocks import ROOT
from tests.interop.peers import needs
from tests.interop.speaking import Speaker, halving
from tests.interop.test_gateway import SEED
from tests.interop.test_gateway_peers import compared
from tests.interop.test_gateway_responses import CHAT_TOOLS, SEEN, SYSTEM, TASK, TOOLS, looking, recorded
from tests.interop.test_gateway_streams import Reader
from tests.interop.test_mcp_out import COMMAND

pytestmark = needs("mcp", "openai", "agents", "langchain_openai", "litellm")


@pytest.fixture
def session() -> Iterator[GatewaySession]:
    gateway = Gateway(Speaker(halving))
    with serving(gateway):
        yield gateway.session("episode")


@pytest.fixture
def looked() -> Iterator[GatewaySession]:
    gateway = Gateway(Speaker(looking))
    with serving(gateway):
        yield gateway.session("one")


@pytest.mark.parametrize("mode", ["whole", "streamed", "previous response"])
def test_an_agent_of_the_openai_agents_sdk_plays_with_its_default_model(
    session: GatewaySession, tmp_path: Path, mode: str
):
    from agents import Agent, RunConfig, Runner, set_tracing_disabled  # pyright: ignore[reportMissingImports]
    from agents.mcp import MCPServerStdio  # pyright: ignore[reportMissingImports]
    from agents.models.openai_provider import OpenAIProvider  # pyright: ignore[reportMissingImports]
    from openai import AsyncOpenAI  # pyright: ignore[reportMissingImports]

    set_tracing_disabled(True)
    out = tmp_path / "episodes.jsonl"
    arguments = [*COMMAND, "guess", "--mcp", "--stdio", "--seed", str(SEED), "--out", str(out)]

    async def play() -> str:
        params: Any = {"command": sys.executable, "args": arguments, "cwd": str(ROOT)}
        client = AsyncOpenAI(base_url=session.base_url, api_key=session.api_key)
        async with client, MCPServerStdio(params, client_session_timeout_seconds=60) as server:
            config = RunConfig(model_provider=OpenAIProvider(openai_client=client))
            opening: Any = (await server.get_prompt("opening")).messages
            instructions, task = (message.content.text for message in opening)
            agent = Agent("player", instructions=instructions, model="policy", mcp_servers=[server])
            given: Any = {"max_turns": 20, "run_config": config}
            if mode == "streamed":
                result: Any = Runner.run_streamed(agent, task, **given)
                kinds = {event.data.type async for event in result.stream_events() if hasattr(event, "data")}
                assert "response.function_call_arguments.delta" in kinds
            else:
                result = await Runner.run(agent, task, **given, auto_previous_response_id=mode == "previous response")
            return str(result.final_output)

    assert asyncio.run(play()) == "Found it."
    [record] = read_jsonl(out)
    [row] = session.end(record)
    compared(row)


@pytest.mark.parametrize(
    "options",
    [
        {"use_responses_api": True},
        {"use_responses_api": True, "streaming": True, "output_version": "v1"},
        {"use_responses_api": True, "use_previous_response_id": True},
        {"use_responses_api": False, "streaming": True},
    ],
)
def test_a_model_of_langchain_plays(session: GatewaySession, options: dict[str, Any]):
    from langchain_core.messages import ToolMessage  # pyright: ignore[reportMissingImports]
    from langchain_openai import ChatOpenAI  # pyright: ignore[reportMissingImports]

    episode = RecordedEpisode(make("guess", dialect="native"), env_id="agentgym/guess-v0")
    messages: list[Any] = [*episode.begin(seed=SEED)]
    model = ChatOpenAI(model="policy", base_url=session.base_url, api_key=session.api_key, **options)
    model = model.bind_tools(episode.env.tools.schemas)
    while True:
        said = model.invoke(messages)
        messages.append(said)
        if not said.tool_calls:
            break
        for call in said.tool_calls:
            [result] = episode.call(call["name"], call["args"])
            messages.append(ToolMessage(text_of(result), tool_call_id=call["id"]))
    episode.end()
    assert episode.trajectory is not None
    [row] = session.end(episode.trajectory)
    compared(row)


def test_langchain_keeps_the_place_of_reasoning_in_streams(looked: GatewaySession):
    from langchain_core.messages import ToolMessage  # pyright: ignore[reportMissingImports]
    from langchain_openai import ChatOpenAI  # pyright: ignore[reportMissingImports]

    options: Any = {"use_responses_api": True, "streaming": True, "output_version": "responses/v1"}
    model = ChatOpenAI(model="policy", base_url=looked.base_url, api_key=looked.api_key, **options)
    messages: list[Any] = [("system", SYSTEM), ("user", TASK)]
    for seen in (*SEEN, None):
        said = model.bind_tools(CHAT_TOOLS).invoke(messages)
        messages += [said, *(ToolMessage(seen, tool_call_id=call["id"]) for call in said.tool_calls)]
    [row] = looked.reward(1.0)
    assert row.tokens == recorded("chat")[0]


def test_the_client_of_openai_works_through_the_responses_api(looked: GatewaySession):
    from openai import OpenAI  # pyright: ignore[reportMissingImports]

    history: list[Any] = [{"role": "user", "content": TASK}]
    response: Any = None
    with OpenAI(base_url=looked.base_url, api_key=looked.api_key) as client:
        for seen in (*SEEN, None):
            options: Any = {"instructions": SYSTEM, "tools": TOOLS, "input": history}
            with client.responses.stream(model="p", **options) as events:
                kinds = [event.type for event in events]
                response = events.get_final_response()
            assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
            history += [item.model_dump(exclude_none=True) for item in response.output]
            calls = [item for item in response.output if item.type == "function_call"]
            history += [{"type": "function_call_output", "call_id": one.call_id, "output": seen} for one in calls]
    assert response.output_text == "A tree and a lake."
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    [row] = looked.reward(1.0)
    assert row.tokens == recorded("chat")[0]


def test_the_client_of_openai_works_through_streamed_chat_completions(looked: GatewaySession):
    from openai import OpenAI  # pyright: ignore[reportMissingImports]

    history: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    with OpenAI(base_url=looked.base_url, api_key=looked.api_key) as client:
        for seen in (*SEEN, None):
            options: Any = {"tools": CHAT_TOOLS, "logprobs": True, "stream_options": {"include_usage": True}}
            with client.chat.completions.stream(model="p", messages=history, **options) as events:
                kinds = {event.type for event in events}
                completion: Any = events.get_final_completion()
            [choice] = completion.choices
            assert kinds >= {"chunk", "content.done" if seen is None else "tool_calls.function.arguments.done"}
            # The token that ends a turn has no text.
            assert len(choice.logprobs.content) == completion.usage.completion_tokens - 1
            history.append(choice.message.model_dump(exclude_none=True))
            calls = choice.message.tool_calls or []
            history += [{"role": "tool", "tool_call_id": one.id, "content": seen} for one in calls]
    [row] = looked.reward(1.0)
    assert row.tokens == recorded("chat")[0]


def test_litellm_brings_reasoning_back_that_it_has_taken_out_of_the_text(looked: GatewaySession):
    import litellm  # pyright: ignore[reportMissingImports]

    history: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    options: Any = {"tools": CHAT_TOOLS, "api_base": looked.base_url, "api_key": looked.api_key}
    for seen in (*SEEN, None):
        said: Any = litellm.completion("openai/policy", history, **options).choices[0].message
        assert "<think>" not in (said.content or "")
        history.append(said.model_dump())
        history += [{"role": "tool", "tool_call_id": call.id, "content": seen} for call in said.tool_calls or []]
    [row] = looked.reward(1.0)
    assert row.tokens == recorded("chat")[0]


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_the_client_of_openai_raises_the_errors_it_has_for_them(api: str):
    import openai  # pyright: ignore[reportMissingImports]

    def refuse(_: str) -> str:
        raise OSError("no power")

    gateway = Gateway(Speaker(refuse))
    with serving(gateway):
        session = gateway.session("one")

        def ask(key: str, **options: Any) -> None:
            with openai.OpenAI(base_url=session.base_url, api_key=key, max_retries=0) as client:
                if api == "chat":
                    client.chat.completions.create(model="p", messages=[{"role": "user", "content": "a"}], **options)
                else:
                    client.responses.create(model="p", input="a", **options)

        with pytest.raises(openai.BadRequestError) as asked:
            ask(session.api_key, tool_choice="required")
        assert (asked.value.param, asked.value.type) == ("tool_choice", "invalid_request_error")
        with pytest.raises(openai.AuthenticationError):
            ask("wrong")
        with pytest.raises(openai.InternalServerError, match="no power"):
            ask(session.api_key)
        session.fail("over")
        with pytest.raises(openai.ConflictError, match="has ended"):
            ask(session.api_key)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_the_client_of_openai_raises_what_breaks_in_the_middle_of_a_stream(api: str):
    import openai  # pyright: ignore[reportMissingImports]

    policy = Reader("A tree and a lake.")
    policy.allowed = 8
    gateway = Gateway(policy)
    with serving(gateway):
        session = gateway.session("one")
        with openai.OpenAI(base_url=session.base_url, api_key=session.api_key, max_retries=0) as client:
            if api == "chat":
                messages: Any = [{"role": "user", "content": "a"}]
                stream: Any = client.chat.completions.create(model="p", messages=messages, stream=True)
            else:
                stream = client.responses.create(model="p", input="a", stream=True)

            def listen() -> None:
                said = ""
                for event in stream:
                    said += event.choices[0].delta.content if api == "chat" else getattr(event, "delta", "")
                    if "tree" in said:
                        policy.error = OSError("no power")

            with pytest.raises(openai.APIError, match="no power"):
                listen()
        assert not session.has_calls


def test_a_call_that_the_client_of_openai_makes_again_is_one_turn(looked: GatewaySession):
    import httpx2  # pyright: ignore[reportMissingImports]
    from openai import DefaultHttpxClient, OpenAI  # pyright: ignore[reportMissingImports]

    lost: list[str] = []

    class Lossy(httpx2.HTTPTransport):
        """Loses the first answer."""

        def handle_request(self, request: Any) -> Any:
            answer = super().handle_request(request)
            if not lost:
                lost.append(json.loads(answer.read())["id"])
                raise httpx2.ReadError("the line is dead", request=request)
            return answer

    http = DefaultHttpxClient(transport=Lossy())
    with OpenAI(base_url=looked.base_url, api_key=looked.api_key, http_client=http) as client:
        client.responses.create(model="p", input=TASK, instructions=SYSTEM, tools=TOOLS)  # type: ignore[arg-type]
    assert len(lost) == 1
    [row] = looked.reward(1.0)
    assert len(row.turns) == 1
