"""The gateway's streams: text is sent while it is sampled, and equals the whole answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx

from agentgym.core.messages import Message
from agentgym.core.policy import Generation
from agentgym.core.trajectory import Tokens
from agentgym.interop.served.gateway import serving
from tests.interop.speaking import END, START, Letters
from tests.interop.test_gateway import CALL, LOOK, USER, Client, gateway_of
from tests.rows import each_row
from tests.serving_cases import raw, until

CHAT = "/v1/chat/completions"
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


class Bytes(Letters):
    """A codec whose tokens are bytes: most characters of other languages take several."""

    before_end = "<over>"
    """Text before the end token that is not part of a turn."""

    def decode(self, ids: Sequence[int]) -> str:
        text = bytes(i - 2 for i in ids if i > 1).decode(errors="replace")
        return text.removesuffix(self.before_end) if ids and ids[-1] == END else text

    def _written(self, messages: Sequence[Message]) -> list[int]:
        return [i for m in messages for i in (START, *(b + 2 for b in str(m.get("content")).encode()), END)]


class Reader:
    """A token policy that samples a fixed turn, some bytes at a time, up to `allowed`.

    Args:
        turn: The text of the turn.
        step: Tokens per sampling step.
    """

    name, context = "reader", 100_000

    def __init__(self, turn: str, step: int = 1):
        self.codec: Any = Bytes()
        self.streams = True
        self.turn, self.step = turn, step
        self.allowed = 1 << 30
        self.error: Exception | None = None
        self.asked = self.cancelled = 0
        self.released: list[str] = []

    async def generate(
        self, ids: Sequence[int], max_new_tokens: int, session: str, on_tokens: Any = None, **_: Any
    ) -> Generation:
        self.asked += 1
        sampled = [*(b + 2 for b in (self.turn + self.codec.before_end).encode()), END][:max_new_tokens]
        try:
            for at in range(0, len(sampled), self.step):
                while at >= self.allowed:
                    if self.error is not None:
                        raise self.error
                    await asyncio.sleep(0.002)
                if on_tokens is not None:
                    on_tokens(sampled[at : at + self.step])
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Generation(sampled, [-0.5] * len(sampled), "stop" if sampled[-1] == END else "length")

    def release(self, session: str) -> None:
        self.released.append(session)


def body_of(*, tools: bool = True, **more: Any) -> dict[str, Any]:
    return {"messages": [USER], **({"tools": [LOOK]} if tools else {}), **more}


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a stream, without comments and the last mark."""
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def pieces_of(text: str) -> list[str]:
    """The text chunks of a stream."""
    deltas = [choice["delta"] for event in events_of(text) for choice in event.get("choices", ())]
    return [delta["content"] for delta in deltas if delta.get("content") is not None]


def joined(text: str) -> dict[str, Any]:
    """The content of a stream, without the parts that differ between calls."""
    events = events_of(text)
    [finish] = [c["finish_reason"] for event in events for c in event["choices"] if c["finish_reason"]]
    calls = [call for event in events for choice in event["choices"] for call in choice["delta"].get("tool_calls", [])]
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    return {
        "content": "".join(pieces_of(text)),
        "calls": [{**call, "index": None} for call in calls],
        "finish": finish,
        "usage": events[-1]["usage"],
    }


def answered(body: dict[str, Any]) -> dict[str, Any]:
    """The same of an answer."""
    [choice] = body["choices"]
    message = choice["message"]
    calls = [{**call, "index": None} for call in message.get("tool_calls", [])]
    finish, usage = choice["finish_reason"], body["usage"]
    return {"content": message["content"] or "", "calls": calls, "finish": finish, "usage": usage}


TURNS = {
    "many bytes": "Ein Bäumchen, 日本の木, \U0001f333\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301 \ufffd.",
    "a call": f"Well, I look.\n{CALL}",
    "half a call": f"I look.\n{CALL[:30]}",
    "no call": "Write <tool_cal> or </tool> or <tool_call and say 日本.",
    "reasoning": f"<think>\nMaybe {CALL}?\n</think>\n\n  I know: 日本. \n",
    "open reasoning": "<think>\nI never ",
    "a stop": "I think.\nObserv: none.\nObservation: none. End.",
    "a long one": "word " * 300 + "日本" * 50,
}


@each_row("options", [{}, {"max_tokens": 17, "parallel_tool_calls": False}, {"tools": False}])
@each_row("turn", TURNS.values())
def test_the_chunks_of_a_stream_equal_the_whole_answer(turn: str, options: dict[str, Any]):
    body = body_of(**options, stop="Observation:")
    gateway = gateway_of(Reader(turn))
    whole = Client(gateway).post(f"/s/one{CHAT}", body)
    assert whole.status_code == 200, whole.text
    expected = answered(whole.json()), tokens_of(gateway)
    for step in (1, 7):
        gateway = gateway_of(Reader(turn, step))
        stream = Client(gateway).post(f"/s/one{CHAT}", {**body, **STREAM})
        assert (joined(stream.text), tokens_of(gateway)) == expected


def tokens_of(gateway: Any) -> Tokens:
    [row] = gateway.find("one").reward(1.0)
    assert row.tokens is not None
    return row.tokens


def test_a_policy_that_breaks_ends_the_stream_with_an_error_and_adds_no_turn():
    policy = Reader("A tree and a lake.")
    policy.allowed, policy.error = 8, OSError("no power")
    gateway = gateway_of(policy)
    text = Client(gateway).post(f"/s/one{CHAT}", body_of(stream=True)).text
    assert "".join(pieces_of(text)) == "A tree a"
    error = events_of(text)[-1]["error"]
    assert (error["code"], error["type"], "no power" in error["message"]) == ("infrastructure", "server_error", True)
    assert not gateway.find("one").has_calls
    assert policy.released == ["one/0"]


@each_row("stream, has_begun", [(True, True), (True, False), (False, False)])
def test_a_call_whose_client_leaves_is_cancelled_without_a_trace(stream: bool, has_begun: bool):
    policy = Reader("A tree and a lake.")
    policy.allowed = 8 if has_begun else 0
    gateway = gateway_of(policy)
    with serving(gateway) as url:
        session = gateway.session("one")
        body = json.dumps(body_of(stream=stream)).encode()
        head = f"POST /s/one{CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        key = f"Authorization: Bearer {session.api_key}\r\n\r\n"
        with raw(int(url.rpartition(":")[2]), head.encode() + key.encode() + body) as connection:
            if has_begun:
                came = b""
                while came.count(b"delta") < 5:
                    came += connection.recv(1 << 16)
            until(lambda: policy.asked == 1)
        until(lambda: policy.cancelled == 1)
        until(lambda: policy.released == ["one/0"])
        assert not session.has_calls
        policy.allowed = 1 << 30
        headers = {"Authorization": f"Bearer {session.api_key}"}
        again = httpx.post(f"{url}/s/one{CHAT}", json=body_of(), headers=headers, trust_env=False)
        assert again.status_code == 200
        [row] = session.reward(1.0)
    assert (len(row.turns), row.failed) == (1, False)
    assert row.tokens is not None
    assert row.tokens.sampled == len("A tree and a lake.<over>") + 1
