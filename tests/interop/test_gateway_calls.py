"""The gateway's calls: their options, and calls that fail, are repeated or concurrent."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx

from agentgym.core.policy import Generation
from agentgym.interop.served.gateway.app import make_app
from tests.interop.speaking import Letters, Speaker
from tests.interop.test_gateway import LOOK, TOKEN, USER, Client, gateway_of
from tests.rows import each_row

CHAT = "/v1/chat/completions"


class Slow(Speaker):
    """Answers only while `is_allowed`."""

    def __init__(self, say: Any = lambda _: "Yes."):
        super().__init__(say)
        self.asking = 0
        self.is_allowed = True

    async def generate(self, ids: Any, max_new_tokens: int, session: str, **more: Any) -> Generation:
        self.asking += 1
        while not self.is_allowed:
            await asyncio.sleep(0.005)
        return await super().generate(ids, max_new_tokens, session, **more)


def slowly(policy: Slow, client: Client, bodies: list[Any], meanwhile: Callable[[], Any] = lambda: None) -> list[Any]:
    """Post bodies at the same time, and let the policy answer once all wait for it."""

    async def all_at_once() -> list[Any]:
        policy.is_allowed, before = False, policy.asking
        calls = [asyncio.create_task(client._post(f"{client.path}{CHAT}", body, TOKEN)) for body in bodies]
        while policy.asking < before + len(bodies):
            await asyncio.sleep(0.005)
        meanwhile()
        policy.is_allowed = True
        return await asyncio.gather(*calls)

    return asyncio.run(all_at_once())


def test_a_turn_ends_at_a_text_that_the_agent_names():
    gateway = gateway_of(Speaker(lambda conversation: "I think. Observation: none. End."))
    client = Client(gateway, path="/s/one")
    answer = client.chat([USER], stop=["End", "Observation:"]).json()["choices"][0]
    assert (answer["message"]["content"], answer["finish_reason"]) == ("I think. ", "stop")
    client.said([USER, {"role": "assistant", "content": "I think."}, USER], stop="Observation:")
    [row] = gateway.find("one").reward(1.0)
    assert row.tokens is not None
    assert [turn.action for turn in row.turns] == ["I think. Observation:"] * 2  # what was sampled, and no more
    spoken = [row.tokens.completion_ids[turn.span[0] : turn.span[1]] for turn in row.turns if turn.span]
    assert [Letters().decode(ids) for ids in spoken] == ["I think. Observation:"] * 2
    logprobs = [row.tokens.logprobs[turn.span[0] : turn.span[1]] for turn in row.turns if turn.span]
    assert logprobs == [[-(1 + n % 7) / 10 for n in range(len(ids))] for ids in spoken]


def test_a_turn_that_reaches_its_token_limit_has_no_calls():
    """A call of `compact` has no end, so a prefix of it would be another call."""
    gateway = gateway_of(Speaker(lambda _: "@look rows of all"), dialect="compact")
    tool = copy.deepcopy(LOOK)
    tool["function"]["parameters"] = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    client = Client(gateway, path="/s/one")
    for size, finish in ((10, "length"), (99, "tool_calls")):
        answer = client.chat([USER], tools=[tool], max_tokens=size).json()["choices"][0]
        assert answer["finish_reason"] == finish
        assert bool(answer["message"].get("tool_calls")) == (finish == "tool_calls")
    rows = gateway.find("one").reward(1.0)
    assert [turn.finish for row in rows for turn in row.turns] == ["length", "stop"]


@each_row("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_comes_back_in_a_field_of_its_own_is_part_of_the_turn(name: str):
    gateway = gateway_of(Speaker(lambda _: "<think>\nHm.\n</think>\n\nYes."))
    client = Client(gateway, path="/s/one")
    client.said([USER])
    client.said([USER, {"role": "assistant", "content": "Yes.", name: "Hm."}, USER])
    assert [len(row.turns) for row in gateway.find("one").reward(1.0)] == [2]


@each_row(
    "options",
    [
        {"tool_choice": "required", "tools": [LOOK]}, {"response_format": {"type": "json_object"}}, {"n": 2},
        {"functions": [{"name": "look"}]}, {"stop": ["a"] * 5}, {"max_tokens": 0}, {"stream": "yes"}, {"tools": {}},
    ],
)  # fmt: skip
def test_an_unsupported_option_is_refused_by_name(options: Any):
    answer = Client(gateway_of(Speaker(lambda _: "Yes."))).chat([USER], **options)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, next(iter(options)))
    assert answer.headers["x-should-retry"] == "false"


def test_a_retry_of_a_lost_answer_gets_the_same_answer():
    numbers = count(1)
    gateway = gateway_of(Speaker(lambda _: f"Turn {next(numbers)}."))

    async def asked(retries: str) -> str:
        transport = httpx.ASGITransport(make_app(gateway))
        headers = {"Authorization": f"Bearer {TOKEN}", "x-stainless-retry-count": retries}
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
            answer = await client.post(f"/s/one{CHAT}", json={"messages": [USER]})
        return answer.json()["choices"][0]["message"]["content"]

    assert [asyncio.run(asked(retries)) for retries in ("1", "1", "2", "0")] == [*["Turn 1."] * 3, "Turn 2."]
    assert [len(row.turns) for row in gateway.find("one").reward(1.0)] == [1, 1]


def test_concurrent_calls_of_one_conversation_are_separate_rows():
    policy = Slow(lambda conversation: f"I heard {conversation[-1]}.")
    gateway = gateway_of(policy)
    client = Client(gateway, path="/s/one")
    message = client.said([USER])
    bodies = [{"messages": [USER, message, {"role": "user", "content": str(n)}]} for n in range(5)]
    texts = [answer.json()["choices"][0]["message"]["content"] for answer in slowly(policy, client, bodies)]
    assert texts == [f"I heard {n}." for n in range(5)]
    rows = gateway.find("one").reward(1.0)
    assert sorted(len(row.turns) for row in rows) == [1, 1, 1, 1, 2]
    assert {str(row.turns[-1].action) for row in rows} == {f"I heard {n}." for n in range(5)}
    for row in rows:
        assert row.tokens is not None
        assert Letters().decode(row.tokens.completion_ids).endswith(str(row.turns[-1].action))


def test_an_answer_after_the_end_of_its_session_is_refused():
    policy = Slow()
    gateway = gateway_of(policy)
    client, rows, copies = Client(gateway, path="/s/one"), [], []

    def end() -> None:
        rows.extend(gateway.find("one").reward(1.0))
        copies.extend(copy.deepcopy(rows))

    message = client.said([USER])
    [answer] = slowly(policy, client, [{"messages": [USER, message, USER]}], end)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_ended")
    assert rows == copies


BODY = b'{"messages": [], "reward": 1}'


@each_row(
    "path, body, key, status",
    [
        (CHAT, b"{", TOKEN, 400), (CHAT, b"[" * 100_000, TOKEN, 400), ("/s/one/reward", b"\xff\xfe", TOKEN, 400),
        (CHAT, BODY, "", 401), (f"/s/one{CHAT}", BODY, f"{TOKEN}x", 401), ("/s/one", BODY, "nö", 401),
        ("/s/one/reward", BODY, f":{TOKEN}", 401), (CHAT, BODY, TOKEN[:-1], 401), ("/v1/embeddings", b"{}", "", 404),
    ],
)  # fmt: skip
def test_a_wrong_key_or_body_opens_nothing_and_has_an_error_in_openais_form(
    path: str, body: bytes, key: str, status: int
):
    gateway = gateway_of(Speaker(lambda _: "Yes."))
    gateway.session("one")

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(make_app(gateway), raise_app_exceptions=False)
        headers = [(b"authorization", b"Bearer " + key.encode("utf-8"))]
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
            return await client.post(path, content=body)

    answer = asyncio.run(asked())
    assert (answer.status_code, {*answer.json()["error"]}) == (status, {"message", "type", "code", "param"})
    assert not gateway.find("one").has_calls
