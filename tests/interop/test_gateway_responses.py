"""The gateway's Responses API: the same conversations, tokens and rows as through chat completions."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.interop.gateway.errors import Refused
from agentgym.interop.gateway.stored import StoredResponses
from agentgym.rollout.limits import Limits
from agentgym.trajectory import Tokens
from tests.interop.speaking import Speaker
from tests.interop.test_gateway import Client, gateway_of

LOOK = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {"at": {}}}}
CHAT_TOOLS = [{"type": "function", "function": LOOK}]
TOOLS = [{"type": "function", "strict": True, **LOOK}]
SYSTEM = "You look at things."
TASK = "What is there?"
SEEN = ("A tree.", "A lake.")
THOUGHT = "First the hill."


def call(at: str) -> str:
    return f'<tool_call>\n{{"name": "look", "arguments": {{"at": "{at}"}}}}\n</tool_call>'


def looking(conversation: str) -> str:
    """Look twice at once, after some thought; look again; answer."""
    if SEEN[0] not in conversation:
        return f"<think>\n{THOUGHT}\n</think>\n\nI look.\n{call('hill')}\n{call('shore')}"
    return call("lake") if SEEN[1] not in conversation else "<think>Well.</think> A tree and a lake."


class Agent:
    """Works through one of the two APIs, or through both in turn.

    Args:
        client: Its connection.
        apis: Which API each call uses; the last one is used from then on.
    """

    def __init__(self, client: Client, *apis: str):
        self.client, self.apis = client, [*apis]
        self.chat: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
        self.items: list[Any] = [{"role": "user", "content": TASK}]
        self.last: Any = None

    def work(self) -> str:
        for seen in ((SEEN[0], SEEN[0]), (SEEN[1],)):
            said = self.ask()
            ids = [entry["id"] for entry in said["tool_calls"]]
            for name, text in zip(ids, seen, strict=True):
                self.chat.append({"role": "tool", "tool_call_id": name, "content": text})
                self.items.append({"type": "function_call_output", "call_id": name, "output": text})
        return self.ask()["content"]

    def ask(self) -> dict[str, Any]:
        api = self.apis.pop(0) if len(self.apis) > 1 else self.apis[0]
        said = self.by_chat() if api == "chat" else self.by_responses()
        self.chat.append(said)
        return said

    def by_chat(self) -> dict[str, Any]:
        said = self.client.said(self.chat, tools=CHAT_TOOLS)
        calls = [{"type": "function_call", "call_id": c["id"], **c["function"]} for c in said.get("tool_calls", [])]
        self.items += [{"role": "assistant", "content": said["content"]}, *calls]
        return said

    def by_responses(self) -> dict[str, Any]:
        self.last = respond(self.client, input=self.items)
        self.items += self.last["output"]
        return as_message(self.last)


def as_message(response: dict[str, Any]) -> dict[str, Any]:
    """The message of a chat endpoint that says the same."""
    thoughts = [part["text"] for item in response["output"] if item["type"] == "reasoning" for part in item["content"]]
    texts = [part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]]
    calls = [
        {"id": item["call_id"], "function": {"name": item["name"], "arguments": item["arguments"]}}
        for item in response["output"]
        if item["type"] == "function_call"
    ]
    content = "".join([*(f"<think>{thought}</think>" for thought in thoughts), *texts])
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def respond(client: Client, **body: Any) -> Any:
    answer = client.post(f"{client.path}/v1/responses", {"instructions": SYSTEM, "tools": TOOLS, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def recorded(*apis: str) -> tuple[Tokens, str]:
    """The tokens of the conversation, and what the agent hears last."""
    gateway = gateway_of(Speaker(looking))
    said = Agent(Client(gateway, path="/s/one"), *apis).work()
    [row] = gateway.find("one").reward(1.0)
    assert row.tokens is not None
    return row.tokens, said


def test_a_conversation_has_the_same_tokens_through_both_apis():
    wanted, said = recorded("chat")
    assert said == "<think>Well.</think> A tree and a lake."
    for apis in (["responses"], ["chat", "responses"], ["responses", "chat", "responses"]):
        tokens, heard = recorded(*apis)
        assert tokens == wanted
        assert heard.endswith("A tree and a lake.")


def test_what_was_said_comes_as_items_and_goes_back_as_items():
    client = Client(gateway_of(Speaker(looking)), path="/s/one")
    thought, text, *calls = respond(client, input=TASK)["output"]
    assert (thought["type"], thought["content"]) == ("reasoning", [{"type": "reasoning_text", "text": THOUGHT}])
    assert (text["role"], text["content"][0]["text"]) == ("assistant", "I look.")
    assert [(one["name"], json.loads(one["arguments"])) for one in calls] == [
        ("look", {"at": "hill"}),
        ("look", {"at": "shore"}),
    ]
    assert len({one["call_id"] for one in calls}) == 2


@pytest.mark.parametrize("keeps", ["the id of the response", "references", "ids of reasoning"])
def test_what_is_stored_need_not_be_sent_again(keeps: str):
    gateway = gateway_of(Speaker(looking))
    client = Client(gateway, path="/s/one")
    history: list[Any] = [{"role": "user", "content": TASK}]
    previous = None
    for seen in (SEEN[0], SEEN[1], None):
        response = respond(client, input=history, previous_response_id=previous)
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        results = [{"type": "function_call_output", "call_id": one["call_id"], "output": seen} for one in calls]
        if keeps == "the id of the response":
            previous, history = response["id"], results
        elif keeps == "references":
            history += [*({"type": "item_reference", "id": item["id"]} for item in response["output"]), *results]
        else:
            history += [{**item, "content": []} if item["type"] == "reasoning" else item for item in response["output"]]
            history += results
    [row] = gateway.find("one").reward(1.0)
    assert (row.tokens, len(row.turns)) == (recorded("chat")[0], 3)


def test_reasoning_of_other_models_is_left_out_of_the_conversation():
    gateway = gateway_of(Speaker(lambda _: "Yes."))
    items = [
        {"role": "user", "content": "a"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"role": "developer", "content": "c"},
    ]
    respond(Client(gateway, path="/s/one"), input=items, tools=[])
    [row] = gateway.find("one").reward(0.0)
    assert [(m.get("role"), m.get("content")) for m in row.opening] == [
        ("system", SYSTEM), ("user", "a"), ("assistant", "b"), ("system", "c")
    ]  # fmt: skip


def test_responses_are_forgotten_oldest_first_and_those_not_to_be_stored_at_once():
    client = Client(gateway_of(Speaker(lambda _: "Yes.")), path="/s/one")
    unstored = respond(client, input="a", store=False)
    answer = client.post("/s/one/v1/responses", {"input": "b", "previous_response_id": unstored["id"]})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "previous_response_not_found")
    assert error["param"] == "previous_response_id"
    stored = StoredResponses(2)
    for name in "abc":
        stored.keep({"id": name, "output": [{"id": f"item-{name}"}]}, name, [{"content": name}])
    assert (stored.before("c"), [*stored.items]) == ([{"content": "c"}], ["item-b", "item-c"])
    with pytest.raises(Refused, match="there is no response 'a'"):
        stored.before("a")
    short = StoredResponses(chars=20)
    for name, given in (("a", "x"), ("b", "x" * 15), ("c", "x" * 10), ("d", "x" * 100)):
        short.keep({"id": name, "output": []}, given, [{"content": name}])
        assert short.before(name) == [{"content": name}]
    with pytest.raises(Refused, match="there is no response 'c'"):
        short.before("c")


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a stream."""
    found = []
    for piece in text.removesuffix("\n\n").split("\n\n"):
        name, data = piece.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_a_stream_says_piece_by_piece_what_an_answer_says():
    whole = respond(Client(gateway_of(Speaker(looking)), path="/s/a"), input=TASK)
    answer = Client(gateway_of(Speaker(looking)), path="/s/a").post(
        "/s/a/v1/responses", {"instructions": SYSTEM, "tools": TOOLS, "input": TASK, "stream": True}
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.text)
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done",
        "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done",
        "output_item.done",
        *2 * ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"],
        "completed",
    ]  # fmt: skip
    assert as_message(events[-1]["response"]) == as_message(whole)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert deltas == [item["arguments"] for item in done if item["type"] == "function_call"]
    for before, after in pairwise(event.get("output_index", 0) for event in events[2:-1]):
        assert after - before in (0, 1)


def test_a_turn_that_was_cut_is_incomplete():
    gateway = gateway_of(Speaker(lambda _: "A long story."), limits=Limits(max_new_tokens=10))
    client = Client(gateway, path="/s/one")
    for limit, said in ((4, "A lo"), (100, "A long sto")):
        response = respond(client, input="Tell.", tools=[], max_output_tokens=limit)
        assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert (as_message(response)["content"], response["usage"]["output_tokens"]) == (said, len(said))
    answer = client.post("/s/one/v1/responses", {"input": "Tell.", "max_output_tokens": 4, "stream": True})
    assert events_of(answer.text)[-1]["type"] == "response.incomplete"


def test_it_says_with_which_settings_was_sampled_and_what_had_no_effect():
    client = Client(gateway_of(Speaker(lambda _: "Yes.")))
    include = ["message.output_text.logprobs", "reasoning.encrypted_content"]
    body = {
        "input": "a",
        "temperature": 0.1,
        "reasoning": {"effort": "low"},
        "include": include,
        "metadata": {"a": "b"},
    }
    answer = client.post("/v1/responses", {**body, "text": {"format": {"type": "text"}}, "truncation": "disabled"})
    assert answer.headers["x-agentgym-ignored"] == "temperature, reasoning"
    response = answer.json()
    assert (response["temperature"], response["metadata"], response["truncation"]) == (None, {"a": "b"}, "disabled")
    [part] = response["output"][0]["content"]
    assert [one["token"] for one in part["logprobs"]] == [*"Yes."]
    assert [one["logprob"] for one in part["logprobs"]] == [-0.1, -0.2, -0.3, -0.4]


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": ["hi"]}, "input"),
        ({"input": [{"type": "computer_call_output"}]}, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_0"}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "input"),
        ({"input": [{"type": "reasoning", "content": 5}]}, "input"),
        ({"instructions": 5}, "instructions"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tools": {}}, "tools"),
        ({"tool_choice": "required", "tools": TOOLS}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "look"}, "tools": TOOLS}, "tool_choice"),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}}, "text.format"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": True}, "max_output_tokens"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"include": "all"}, "include"),
        ({"store": "no"}, "store"),
        ({"stream": "no"}, "stream"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_it_has_not_is_refused_by_name(asked: Any, param: str):
    answer = Client(gateway_of(Speaker(lambda _: "Yes."))).post("/v1/responses", {"input": "a", **asked})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert len(error["message"]) > 10
