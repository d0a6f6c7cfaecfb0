"""The gateway's calls: their options, and calls that fail, are abandoned, repeated or concurrent."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from itertools import count
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx

from agentgym.base.errors import InfrastructureError
from agentgym.core.policy import Generation
from agentgym.interop.served.gateway import GatewaySession, serving
from agentgym.interop.served.gateway.app import make_app
from tests.interop.speaking import Letters, Speaker
from tests.interop.test_gateway import TOKEN, USER, Client, gateway_of
from tests.rows import each_row
from tests.serving_cases import raw, running, until

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
BODY = {"messages": [USER]}
CHAT = "/v1/chat/completions"


class Slow(Speaker):
    """Answers only while `is_allowed`."""

    def __init__(self, say: Any = lambda _: "Yes."):
        super().__init__(say)
        self.asking = self.cancelled = 0
        self.is_allowed = False

    async def generate(self, ids: Any, max_new_tokens: int, session: str, **more: Any) -> Generation:
        self.asking += 1
        try:
            while not self.is_allowed:
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().generate(ids, max_new_tokens, session, **more)


@contextmanager
def served(policy: Any, **settings: Any) -> Iterator[tuple[GatewaySession, httpx.Client]]:
    """A session of a gateway, and a program that talks to it over a socket."""
    gateway = gateway_of(policy, **settings)
    with serving(gateway):
        session = gateway.session("one")
        headers = {"Authorization": f"Bearer {session.api_key}"}
        base = session.base_url.removesuffix("/v1")
        with httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=60) as client:
            yield session, client


def test_a_turn_ends_at_a_text_that_the_agent_names():
    policy = Speaker(lambda conversation: "I think. Observation: none. End.")
    gateway = gateway_of(policy)
    client = Client(gateway, path="/s/one")
    for stop in ("Observation:", ["End", "Observation:"]):
        answer = client.chat([USER], stop=stop).json()["choices"][0]
        assert (answer["message"]["content"], answer["finish_reason"]) == ("I think. ", "stop")
    history = [USER, {"role": "assistant", "content": "I think."}, USER]
    client.said(history, stop="Observation:")
    *_, row = gateway.find("one").reward(1.0)
    assert row.tokens is not None
    assert [turn.action for turn in row.turns] == ["I think. Observation:"] * 2  # what was sampled, and no more
    spoken = [row.tokens.completion_ids[turn.span[0] : turn.span[1]] for turn in row.turns if turn.span]
    assert [Letters().decode(ids) for ids in spoken] == ["I think. Observation:"] * 2
    logprobs = [row.tokens.logprobs[turn.span[0] : turn.span[1]] for turn in row.turns if turn.span]
    assert logprobs == [[-(1 + n % 7) / 10 for n in range(len(ids))] for ids in spoken]


def test_without_parallel_calls_a_turn_ends_after_its_first_call():
    gateway = gateway_of(Speaker(lambda _: f"Well.\n{CALL}\n{CALL}"))
    answer = Client(gateway, path="/s/one").chat([USER], tools=[LOOK], parallel_tool_calls=False)
    assert answer.status_code == 200
    assert answer.text.count("call00001") == 1
    assert "call00002" not in answer.text
    [row] = gateway.find("one").reward(0.0)
    assert [turn.action for turn in row.turns] == [f"Well.\n{CALL}"]


def test_inseparable_calls_are_text_if_only_one_is_allowed():
    listed = '<tool_call>\n[{"name": "look", "arguments": {}}, {"name": "look", "arguments": {}}]\n</tool_call>'
    client = Client(gateway_of(Speaker(lambda _: listed)))
    assert len(client.said([USER], tools=[LOOK])["tool_calls"]) == 2
    message = client.said([USER], tools=[LOOK], parallel_tool_calls=False)
    assert (message["content"], "tool_calls" in message) == (listed, False)


@each_row("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_comes_back_in_a_field_of_its_own_is_part_of_the_turn(name: str):
    gateway = gateway_of(Speaker(lambda _: "<think>\nHm.\n</think>\n\nYes."))
    client = Client(gateway, path="/s/one")
    client.said([USER])
    client.said([USER, {"role": "assistant", "content": "Yes.", name: "Hm."}, USER])
    assert [len(row.turns) for row in gateway.find("one").reward(1.0)] == [2]


def test_log_probabilities_are_sent_on_request():
    gateway = gateway_of(Speaker(lambda _: "Yes."))
    [choice] = Client(gateway).chat([USER], logprobs=True, top_logprobs=0).json()["choices"]
    tokens = choice["logprobs"]["content"]
    assert [(token["token"], token["logprob"]) for token in tokens] == [
        *zip("Yes.", (-0.1, -0.2, -0.3, -0.4), strict=True)
    ]
    lines = Client(gateway).chat([USER], logprobs=True, stream=True).text.split("\n\n")
    first = json.loads(lines[0].removeprefix("data: "))
    assert first["choices"][0]["logprobs"]["content"] == tokens
    assert Client(gateway).chat([USER]).json()["choices"][0]["logprobs"] is None


@each_row(
    "options",
    [
        {"tool_choice": "required", "tools": [LOOK]}, {"tool_choice": {"type": "function"}, "tools": [LOOK]},
        {"response_format": {"type": "json_object"}}, {"logit_bias": {"5": 100}}, {"top_logprobs": 2, "logprobs": True},
        {"functions": [{"name": "look"}]}, {"function_call": {"name": "look"}}, {"modalities": ["text", "audio"]},
        {"audio": {"voice": "x"}}, {"web_search_options": {}}, {"stop": ["a"] * 5}, {"stop": [""]}, {"stop": 5},
        {"n": 2}, {"max_tokens": 0}, {"max_completion_tokens": True}, {"stream": "yes"}, {"logprobs": 1},
        {"parallel_tool_calls": "no"}, {"guided_json": {}}, {"tools": {}},
    ],
)  # fmt: skip
def test_an_unsupported_option_is_refused_by_name(options: Any):
    answer = Client(gateway_of(Speaker(lambda _: "Yes."))).chat([USER], **options)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, next(iter(options)))
    assert answer.headers["x-should-retry"] == "false"


def test_ignored_sampling_options_are_named_in_a_header():
    options = {"temperature": 0.0, "top_p": 0.5, "seed": 1, "user": "me", "store": True, "metadata": {}, "n": 1}
    answer = Client(gateway_of(Speaker(lambda _: "Yes."))).chat([USER], **options, presence_penalty=None)
    assert answer.headers["x-agentgym-ignored"] == "temperature, top_p, seed"
    assert "x-agentgym-ignored" not in Client(gateway_of(Speaker(lambda _: "Yes."))).chat([USER]).headers


@each_row("turn", [1, 2])
def test_a_call_whose_client_leaves_is_cancelled_without_a_turn(turn: int):
    policy = Slow()
    with served(policy) as (session, client):
        messages: list[Any] = [USER]
        if turn == 2:
            policy.is_allowed = True
            client.post(CHAT, json={"messages": messages}).raise_for_status()
            messages += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Sure?"}]
            policy.is_allowed = False
        port, body = client.base_url.port, json.dumps({"messages": messages}).encode()
        assert port is not None
        head = f"POST /s/one{CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        key = f"Authorization: Bearer {session.api_key}\r\n\r\n"
        with raw(port, head.encode() + key.encode() + body):
            until(lambda: policy.asking == turn)
        until(lambda: policy.cancelled == 1)
        policy.is_allowed = True
        client.post(CHAT, json={"messages": messages}).raise_for_status()
        [row] = session.reward(1.0)
    assert (len(row.turns), row.failed) == (turn, False)


def test_a_turn_without_a_token_in_time_is_an_infrastructure_error():
    class Late(Speaker):
        async def generate(self, ids: Any, max_new_tokens: int, session: str, **more: Any) -> Generation:
            return Generation([], [], "time")

    gateway = gateway_of(Late(str))
    answer = Client(gateway, path="/s/one").chat([USER])
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "infrastructure")
    assert not gateway.find("one").has_calls


def test_a_retry_of_a_lost_answer_gets_the_same_answer():
    numbers = count(1)
    gateway = gateway_of(Speaker(lambda _: f"Turn {next(numbers)}."))

    async def asked(retries: str) -> str:
        transport = httpx.ASGITransport(make_app(gateway))
        headers = {"Authorization": f"Bearer {TOKEN}", "x-stainless-retry-count": retries}
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
            answer = await client.post("/s/one/v1/chat/completions", json={"messages": [USER]})
        return answer.json()["choices"][0]["message"]["content"]

    assert [asyncio.run(asked(retries)) for retries in ("1", "1", "2")] == ["Turn 1."] * 3
    assert asyncio.run(asked("0")) == "Turn 2."
    assert [len(row.turns) for row in gateway.find("one").reward(1.0)] == [1, 1]


def test_concurrent_calls_of_one_conversation_are_separate_rows():
    policy = Slow(lambda conversation: f"I heard {conversation[-1]}.")
    with served(policy) as (session, client):
        policy.is_allowed = True
        message = client.post("/v1/chat/completions", json={"messages": [USER]}).json()["choices"][0]["message"]
        policy.is_allowed = False
        bodies = [{"messages": [USER, message, {"role": "user", "content": str(n)}]} for n in range(5)]

        async def all_at_once() -> list[Any]:
            async with httpx.AsyncClient(
                base_url=client.base_url, headers=client.headers, trust_env=False
            ) as session_client:
                calls = [asyncio.create_task(session_client.post("/v1/chat/completions", json=body)) for body in bodies]
                while policy.asking < 6:
                    await asyncio.sleep(0.005)
                policy.is_allowed = True
                return [answer.json()["choices"][0]["message"]["content"] for answer in await asyncio.gather(*calls)]

        assert asyncio.run(all_at_once()) == [f"I heard {n}." for n in range(5)]
        rows = session.reward(1.0)
    assert sorted(len(row.turns) for row in rows) == [1, 1, 1, 1, 2]
    assert {str(row.turns[-1].action) for row in rows} == {f"I heard {n}." for n in range(5)}
    for row in rows:
        assert row.tokens is not None
        assert Letters().decode(row.tokens.completion_ids).endswith(str(row.turns[-1].action))


def test_an_answer_after_the_end_of_its_session_is_refused():
    policy = Slow()
    with served(policy) as (session, client):
        policy.is_allowed = True
        message = client.post("/v1/chat/completions", json={"messages": [USER]}).json()["choices"][0]["message"]
        policy.is_allowed = False

        async def late() -> httpx.Response:
            async with httpx.AsyncClient(
                base_url=client.base_url, headers=client.headers, trust_env=False
            ) as session_client:
                body = {"messages": [USER, message, USER]}
                call = asyncio.create_task(session_client.post("/v1/chat/completions", json=body))
                while policy.asking < 2:
                    await asyncio.sleep(0.005)
                [row] = session.reward(1.0)
                before = copy.deepcopy(row)
                policy.is_allowed = True
                answer = await call
                assert row == before
                return answer

        answer = asyncio.run(late())
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_ended")


def test_a_session_whose_model_is_at_work_is_not_idle():
    policy = Slow()
    gateway = gateway_of(policy, sessions=1, idle_s=0.0)
    with serving(gateway) as url:
        session = gateway.session("one")
        headers = {"Authorization": f"Bearer {session.api_key}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as client:
            asking = threading.Thread(target=client.post, args=("/s/one/v1/chat/completions",), kwargs={"json": BODY})
            asking.start()
            until(lambda: policy.asking == 1)
            with pytest.raises(InfrastructureError, match="all 1 sessions"):
                gateway.session("two")
            policy.is_allowed = True
            asking.join()
        gateway.session("two")
    assert (session.is_over, session.trajectories[0].failed) == (True, True)


@each_row(
    "body",
    [
        b"{", b"[]", b"null", b"\xff\xfe", b'{"messages": NaN}', b'{"a":' * 5000, b"[" * 100_000,
        rb'{"messages": [{"role": "user", "content": "\ud800"}]}',
    ],
)  # fmt: skip
@each_row("path", [CHAT, "/s/one", "/s/one/reward"])
def test_a_body_that_is_not_a_json_object_is_refused(path: str, body: bytes):
    gateway = gateway_of(Speaker(lambda _: "Yes."))
    gateway.session("one")
    assert refused(gateway, path, body) == 400


CHAT_REQUEST = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "b"}}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "d"},
    ],
    "tools": [LOOK], "stop": ["e"], "stream_options": {"include_usage": True}, "max_tokens": 5,
}  # fmt: skip
OPENING = {"env_id": "a", "task_id": "b", "seed": 1, "training_step": 2}
REWARD = {"reward": 1.0, "channels": {"a": 1.0}, "reason": "solved"}
RECORD = {"record": {"id": "a", "turns": [{"action": "b", "reward": 1.0}]}}
WRONG = (True, -1, 1.5, 10**400, "x", "\x00", [], [[]], {}, {"type": ["x"]}, [None])


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value, as keys and indexes."""
    yield place
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield from places(value[key], (*place, key))


def changed(value: Any, place: tuple[Any, ...], wrong: Any) -> Any:
    if not place:
        return wrong
    copied = copy.deepcopy(value)
    inside = copied
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = wrong
    return copied


@each_row(
    "path, sound",
    [
        (CHAT, CHAT_REQUEST),
        ("/s/{}", OPENING),
        ("/s/{}/reward", REWARD),
        ("/s/{}/reward", RECORD),
    ],
)
def test_any_value_in_any_place_is_answered_or_refused_with_a_reason(path: str, sound: Any):
    gateway = gateway_of(Speaker(lambda _: "Yes."))
    app = make_app(gateway)

    async def all_of_them() -> set[int]:
        transport, statuses = httpx.ASGITransport(app, raise_app_exceptions=False), set[int]()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
            bodies = (changed(sound, place, wrong) for place in places(sound) for wrong in WRONG)
            for number, body in enumerate(bodies):
                if path.endswith("reward"):
                    await client.post(f"/s/{number}{CHAT}", json={"messages": [USER]})
                where = path.format(number) if "{}" in path else f"/s/{number}{path}"
                answer = await client.post(where, json=body)
                statuses.add(answer.status_code)
                assert answer.status_code == 200 or answer.json()["error"]["message"], answer.text
                gateway._sessions.clear()
        return statuses

    assert asyncio.run(all_of_them()) <= {200, 400, 422}


@each_row("path", [CHAT, "/s/new", "/s/one/reward"])
def test_a_body_that_is_too_large_is_refused_before_it_is_read(path: str):
    gateway = gateway_of(Speaker(lambda _: "Yes."))
    gateway.session("one")
    app = make_app(gateway, body_bytes=1000)
    with running(app, body_bytes=1 << 40) as server:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {10**10}\r\n\r\n"
        with raw(server.port, head.encode()) as connection, HTTPResponse(connection) as answer:
            answer.begin()
            assert (answer.status, json.loads(answer.read())["error"]["code"]) == (413, "request_too_large")
        assert server.client.get("/v1/models", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def refused(gateway: Any, path: str, body: bytes, key: str = TOKEN) -> int:
    """The status of an error, which is in OpenAI's form."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(make_app(gateway), raise_app_exceptions=False)
        headers = [(b"authorization", b"Bearer " + key.encode("utf-8"))]
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
            return await client.post(path, content=body)

    answer = asyncio.run(asked())
    assert set(answer.json()["error"]) == {"message", "type", "code", "param"}
    return answer.status_code


@each_row("key", ["", "wrong", f"{TOKEN}x", f"x{TOKEN}", "nö", ":", f":{TOKEN}", "the-owner-of-this"])
def test_a_wrong_key_opens_nothing(key: str):
    gateway = gateway_of(Speaker(lambda _: "Yes."))
    gateway.session("one")
    for path in (CHAT, f"/s/one{CHAT}", "/s/one", "/s/one/reward"):
        assert refused(gateway, path, b'{"messages": [], "reward": 1}', key) == 401
    assert refused(gateway, "/v1/embeddings", b"{}", key) == 404
    assert not gateway.find("one").has_calls
