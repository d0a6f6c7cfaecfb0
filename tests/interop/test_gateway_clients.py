"""OpenAI's own client, and the libraries that models are called through, in front of the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentgym import make
from agentgym.core.messages import text_of
from agentgym.core.trajectory import Tokens
from agentgym.interop.episodes import RecordedEpisode
from agentgym.interop.served.gateway import Gateway, GatewaySession, serving
from tests.interop.peers import needs
from tests.interop.speaking import Speaker, halving
from tests.interop.test_gateway import SEED, Client, compared, gateway_of

pytestmark = [pytest.mark.peers, *needs("openai", "langchain_openai", "litellm")]

LOOK = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {"at": {}}}}
TOOLS = [{"type": "function", "function": LOOK}]
SEEN = ("A tree.", "A lake.")
OPENING = [{"role": "system", "content": "You look at things."}, {"role": "user", "content": "What is there?"}]


def call(at: str) -> str:
    return f'<tool_call>\n{{"name": "look", "arguments": {{"at": "{at}"}}}}\n</tool_call>'


def looking(conversation: str) -> str:
    """Look twice at once, after some thought; look again; answer."""
    if SEEN[0] not in conversation:
        return f"<think>\nFirst the hill.\n</think>\n\nI look.\n{call('hill')}\n{call('shore')}"
    return call("lake") if SEEN[1] not in conversation else "<think>Well.</think> A tree and a lake."


def recorded() -> Tokens:
    """The tokens of the conversation of `looking`, as a plain client has it."""
    gateway = gateway_of(Speaker(looking))
    client, history = Client(gateway, path="/s/one"), [*OPENING]
    for result in (*SEEN, None):
        message = client.said(history, tools=TOOLS)
        calls = message.get("tool_calls", [])
        history += [message, *({"role": "tool", "tool_call_id": call["id"], "content": result} for call in calls)]
    [row] = gateway.find("one").reward(1.0)
    assert row.tokens is not None
    return row.tokens


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


def test_the_client_of_openai_works_through_streamed_chat_completions(looked: GatewaySession):
    from openai import OpenAI  # pyright: ignore[reportMissingImports]

    history: list[Any] = [*OPENING]
    with OpenAI(base_url=looked.base_url, api_key=looked.api_key) as client:
        for result in (*SEEN, None):
            options: Any = {"tools": TOOLS, "logprobs": True, "stream_options": {"include_usage": True}}
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
    [row] = looked.reward(1.0)
    assert row.tokens == recorded()


def test_litellm_brings_reasoning_back_that_it_has_taken_out_of_the_text(looked: GatewaySession):
    import litellm  # pyright: ignore[reportMissingImports]

    history: list[Any] = [*OPENING]
    options: Any = {"tools": TOOLS, "api_base": looked.base_url, "api_key": looked.api_key}
    for result in (*SEEN, None):
        message: Any = litellm.completion("openai/policy", history, **options).choices[0].message
        assert "<think>" not in (message.content or "")
        history.append(message.model_dump())
        history += [{"role": "tool", "tool_call_id": call.id, "content": result} for call in message.tool_calls or []]
    [row] = looked.reward(1.0)
    assert row.tokens == recorded()


def test_the_client_of_openai_raises_the_errors_it_has_for_them():
    import openai  # pyright: ignore[reportMissingImports]

    def refuse(_: str) -> str:
        raise OSError("no power")

    gateway = Gateway(Speaker(refuse))
    with serving(gateway):
        session = gateway.session("one")

        def ask(key: str, **options: Any) -> None:
            with openai.OpenAI(base_url=session.base_url, api_key=key, max_retries=0) as client:
                client.chat.completions.create(model="p", messages=[{"role": "user", "content": "a"}], **options)

        with pytest.raises(openai.BadRequestError) as refused:
            ask(session.api_key, tool_choice="required")
        assert (refused.value.param, refused.value.type) == ("tool_choice", "invalid_request_error")
        with pytest.raises(openai.AuthenticationError):
            ask("wrong")
        with pytest.raises(openai.InternalServerError, match="no power"):
            ask(session.api_key)
        session.fail("over")
        with pytest.raises(openai.ConflictError, match="has ended"):
            ask(session.api_key)


def test_a_streaming_model_of_langchain_plays(session: GatewaySession):
    from langchain_core.messages import ToolMessage  # pyright: ignore[reportMissingImports]
    from langchain_openai import ChatOpenAI  # pyright: ignore[reportMissingImports]

    episode = RecordedEpisode(make("guess", dialect="native"), env_id="agentgym/guess-v0")
    messages: list[Any] = [*episode.begin(seed=SEED)]
    options: Any = {"use_responses_api": False, "streaming": True}
    model = ChatOpenAI(model="policy", base_url=session.base_url, api_key=session.api_key, **options)
    model = model.bind_tools(episode.env.tools.schemas)
    while True:
        message = model.invoke(messages)
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            [result] = episode.call(call["name"], call["args"])
            messages.append(ToolMessage(text_of(result), tool_call_id=call["id"]))
    episode.end()
    assert episode.trajectory is not None
    [row] = session.end(episode.trajectory)
    compared(row)
