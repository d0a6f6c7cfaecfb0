"""A chat endpoint whose model plays the calculator workload: four calls of `calculator`, then the answer.

Runs in its own process, prints its port, and answers on persistent connections as fast as plain asyncio allows, so that
only the client is measured. Does not import agentgym.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks._peers import started

CALLS = 4
EXPRESSIONS = ("12 * 7", "84 + 16", "100 / 8", "12.5 - 2.5")
ANSWER = "The answer is 10.0."


def _completion(turn: int) -> bytes:
    if turn < CALLS:
        function = {"name": "calculator", "arguments": json.dumps({"expression": EXPRESSIONS[turn]})}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    else:
        message, finish = {"role": "assistant", "content": ANSWER}, "stop"
    body = {
        "id": f"chatcmpl-{turn}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": 100 + 30 * turn, "completion_tokens": 20, "total_tokens": 120 + 30 * turn},
    }
    text = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)


_ANSWERS = [_completion(turn) for turn in range(CALLS + 1)]


class _Http(asyncio.Protocol):
    """One connection. A request is complete when its body has the declared length."""

    def __init__(self) -> None:
        self._waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        while (end := self._waiting.find(b"\r\n\r\n")) >= 0:
            head = self._waiting[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._waiting) < end + 4 + length:
                return
            body, self._waiting = self._waiting[end + 4 : end + 4 + length], self._waiting[end + 4 + length :]
            answer = _ANSWERS[min(body.count(b'"tool_call_id"'), CALLS)]
            self._transport.write(answer)  # type: ignore[attr-defined]


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Http, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextmanager
def serving() -> Iterator[str]:
    """Serve in another process; gives the base URL."""
    with started([sys.executable, "-m", "benchmarks._fake_endpoint"]) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"


if __name__ == "__main__":
    asyncio.run(_serve())
