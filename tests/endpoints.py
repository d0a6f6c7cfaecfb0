"""Fake chat endpoints on loopback: one that fails on request, and one that refuses what real servers refuse."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from agentgym.trainers.endpoint import EndpointPolicy, EndpointSettings
from tests.servers import QuietHandler, serving

KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
"""Keys that a strict server accepts in messages, by role."""


@dataclass
class Said:
    """An HTTP response."""

    body: Any = ""
    """Data, or raw text."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Close the connection in the middle of the body."""


def completion(message: Mapping[str, Any] | str, finish: str = "stop", **more: Any) -> Said:
    """A chat completion of 10 + 5 tokens."""
    content = {"content": message} if isinstance(message, str) else message
    choice = {"index": 0, "message": {"role": "assistant", **content}, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return Said({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage, **more})


def call(name: str, arguments: Mapping[str, Any] | str, id: str | None = "call_1") -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def calling(*calls: dict[str, Any], content: str | None = None) -> Said:
    return completion({"content": content, "tool_calls": list(calls)}, "tool_calls")


class Fake:
    """An endpoint that answers with `answer` and records every request.

    Args:
        answer: Maps a request's body and its number from 0 to the response.
        strict: Refuse conversations that other servers refuse.
        about: The answer to all GET requests, which are not recorded; without it they are answered with 404.
    """

    def __init__(self, answer: Callable[[dict[str, Any], int], Said], *, strict: bool = False, about: Any = None):
        self.answer, self.strict, self.about = answer, strict, about
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self._lock = Lock()

    def respond(self, path: str, headers: Mapping[str, str], body: bytes) -> Said:
        with self._lock:
            number = len(self.requests)
            self.requests.append(json.loads(body))
            self.headers.append(headers)
            self.paths.append(path)
        if self.strict and (problem := fault_in(self.requests[number])):
            return Said({"error": {"message": problem}}, 400)
        return self.answer(self.requests[number], number)

    @contextmanager
    def serving(self, secure: ssl.SSLContext | None = None) -> Iterator[str]:
        """Serve, over TLS if configured; yield the base URL."""
        fake = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65_536  # head and body in one packet; otherwise each answer takes 40 ms

            def do_GET(self) -> None:
                self.send_body(404 if fake.about is None else 200, json.dumps(fake.about).encode())

            def do_POST(self) -> None:
                reply = fake.respond(
                    self.path, dict(self.headers), self.rfile.read(int(self.headers["content-length"]))
                )
                body = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
                self.send_response_only(reply.status)  # no `Date` except the test's
                for name, value in {"content-length": str(len(body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if reply.cut else body)
                self.close_connection = reply.cut or self.close_connection

        with serving(Handler, secure) as url:
            yield f"{url}/v1"


def fault_in(request: Mapping[str, Any]) -> str | None:
    """Return the reason why a strict server refuses a request, if any."""
    waiting: set[str] = set()
    used: set[str] = set()
    before = ""
    for index, message in enumerate(request["messages"]):
        role = message.get("role")
        if problem := _fault_in_message(message):
            return f"messages[{index}]: {problem}"
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                return f"messages[{index}]: no call waits for the answer {message['tool_call_id']!r}"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return f"messages[{index}]: tool_call_ids without an answer: {sorted(waiting)}"
        if role == before and role in ("user", "assistant"):
            return f"messages[{index}]: roles must alternate"
        for entry in message.get("tool_calls", ()):
            if entry["id"] in used:
                return f"messages[{index}]: the id {entry['id']!r} is used twice"
            used.add(entry["id"])
            waiting.add(entry["id"])
        before = role
    if waiting or before == "assistant":
        return f"the conversation ends with the assistant, or without an answer to {sorted(waiting)}"
    return None


def _fault_in_message(message: Mapping[str, Any]) -> str | None:
    role, content = message.get("role"), message.get("content")
    if role not in KEYS or set(message) != KEYS[role] & set(message) or "content" not in message:
        return f"role {role!r} with {sorted(message)}"
    if role == "assistant" and not message.get("tool_calls") and not content:
        return "a turn with nothing in it"
    if isinstance(content, list):
        kinds = {block.get("type") for block in content}
        if any(block["type"] == "text" and not block["text"].strip() for block in content):
            return "a text with nothing in it"
        if role != "user" or not kinds <= {"text", "image_url"}:
            return f"blocks {kinds} in a message of {role!r}"
    elif not isinstance(content, str) or (role != "tool" and content and not content.strip()):
        return f"content {content!r}"
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        return "an answer without tool_call_id"
    for entry in message.get("tool_calls", ()):
        function = entry["function"]
        if not isinstance(entry.get("id"), str) or not entry["id"] or entry.get("type") != "function":
            return f"a call without id or type: {entry}"
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"]):
            return f"the name {function['name']!r}"
        if not isinstance(function["arguments"], str) or not isinstance(_json(function["arguments"]), dict):
            return f"arguments that are no JSON text of an object: {function['arguments']!r}"
    return None


def _json(text: str) -> Any:
    """Return the data in a JSON text; `None` if a strict reader refuses it, for example for NaN or lone surrogates."""
    try:
        data = json.loads(text, parse_constant=lambda name: [][0])
        json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, IndexError):
        return None
    return data


def guessing(request: Mapping[str, Any]) -> Said:
    """The answer of a model that solves `guess` by bisection."""
    messages = request["messages"]
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    low, high = 1, int(re.findall(r"from 1 to (\d+)", prompt)[0])
    guesses = [json.loads(m["tool_calls"][0]["function"]["arguments"])["number"] for m in messages if "tool_calls" in m]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    for number, answer in zip(guesses, results, strict=True):
        low, high = (number + 1, high) if "higher" in answer else (low, number - 1)
    return calling(call("guess", {"number": (low + high) // 2}))


def policy_at(url: str, history: Any = None, **settings: Any) -> EndpointPolicy:
    """A policy with minimal waiting times."""
    return EndpointPolicy("fake", url, EndpointSettings(**{"first_wait_s": 0.001, **settings}), history)
