"""The web application of a gateway: chat completions for agents, sessions and rewards for its owner."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentgym.endings import reason_from
from agentgym.errors import AgentGymError, UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.gateway.errors import Refused
from agentgym.interop.gateway.gateway import Gateway
from agentgym.interop.gateway.requests import ChatRequest
from agentgym.interop.gateway.rows import Reply
from agentgym.interop.gateway.session import GatewaySession, Played
from agentgym.trajectory import Trajectory

Handler = Callable[[Request], Awaitable[Response]]


def make_app(gateway: Gateway) -> Starlette:
    """Return the application."""
    answers = _Answers(gateway)
    agents: list[tuple[str, Handler, str]] = [
        ("/v1/chat/completions", answers.chat, "POST"),
        ("/v1/models", answers.models, "GET"),
    ]
    owner: list[tuple[str, Handler, str]] = [
        ("/s/{session}", answers.open, "POST"),
        ("/s/{session}/reward", answers.reward, "POST"),
    ]
    routes = [
        Route(f"{start}{path}", one, methods=[method]) for path, one, method in agents for start in ("", "/s/{session}")
    ]
    routes += [Route(path, one, methods=[method]) for path, one, method in owner]
    return Starlette(routes=routes, exception_handlers={AgentGymError: _refusal, Exception: _failure})


class _Answers:
    """What answers the requests."""

    def __init__(self, gateway: Gateway):
        self._gateway = gateway

    async def chat(self, request: Request) -> Response:
        """Answer an agent's call."""
        session = self._session(request)
        wanted = ChatRequest.of(await _body(request))
        reply = await session.reply(wanted)
        head = {
            "id": f"chatcmpl-{session.name}-{time.monotonic_ns()}",
            "created": int(time.time()),
            "model": wanted.model or self._gateway.policy.name,
        }
        if wanted.stream:
            return StreamingResponse(_events(head, reply, wanted.wants_usage), media_type="text/event-stream")
        choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish, "logprobs": None}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": _usage(reply)})

    async def models(self, request: Request) -> Response:
        """List the one model that there is."""
        self._session(request)
        model = {"id": self._gateway.policy.name, "object": "model", "created": 0, "owned_by": "agentgym"}
        return JSONResponse({"object": "list", "data": [model]})

    async def open(self, request: Request) -> Response:
        """Open a session for its owner."""
        self._check_owner(request)
        given = await _body(request)
        names = ("env_id", "task_id", "seed", "training_step")
        if unknown := sorted(set(given) - set(names)):
            raise UsageError(f"a session has no {unknown[0]!r}; it has: {', '.join(names)}")
        session = self._gateway.session(request.path_params["session"], Played(**given))
        return JSONResponse({"session": session.name, "api_key": session.api_key, "base_url": session.base_url})

    async def reward(self, request: Request) -> Response:
        """End a session, and return its trajectories."""
        self._check_owner(request)
        session = self._gateway.find(request.path_params["session"])
        _end(session, await _body(request))
        ended = self._gateway.close_session(session)
        return JSONResponse({"trajectories": [one.to_dict() for one in ended]})

    def _session(self, request: Request) -> GatewaySession:
        """Return the session of an agent: the one in the path, or the one that its key names."""
        key = _key(request)
        name = request.path_params.get("session")
        if self._gateway.is_owner(key.partition(":")[0]):
            return self._gateway.find_or_open(name or key.partition(":")[2] or "default")
        if name is not None and key and key == self._gateway.find(name).api_key:
            return self._gateway.find(name)
        raise Refused("the API key is missing or wrong", 401, "invalid_api_key")

    def _check_owner(self, request: Request) -> None:
        if not self._gateway.is_owner(_key(request)):
            raise Refused("only the owner of the gateway may do this", 401, "invalid_api_key")


def _end(session: GatewaySession, given: Mapping[str, Any]) -> None:
    """End a session as its owner says."""
    if (record := given.get("record")) is not None:
        session.end(Trajectory.from_dict(record))
        return
    error = given.get("error")
    if error is not None and "reward" not in given:
        session.fail(str(error))
        return
    try:
        reward, channels = float(given["reward"]), given.get("channels")
        reason = reason_from(given.get("reason", "answered"))
    except (KeyError, TypeError, ValueError) as problem:
        raise UsageError(
            f"a reward is {{'reward': 1.0}}, with 'channels' and a 'reason' if you like: {problem}"
        ) from None
    session.reward(reward, channels=channels, reason=reason, error=error)


def _key(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ").strip()


async def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is not JSON: {error}") from None
    if not isinstance(body, Mapping):
        raise Refused("the body must be a JSON object")
    return body


def _events(head: Mapping[str, Any], reply: Reply, wants_usage: bool) -> Iterator[str]:
    """Yield a reply as a stream: what was said in one piece each, then why it ended."""
    message = reply.message
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"]}]
    calls = message.get("tool_calls", [])
    deltas += [{"tool_calls": [{"index": number, **call}]} for number, call in enumerate(calls)]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reply.finish})
    chunks: list[dict[str, Any]] = [{"choices": [choice]} for choice in choices]
    if wants_usage:
        chunks.append({"choices": [], "usage": _usage(reply)})
    for chunk in chunks:
        yield f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', **chunk})}\n\n"
    yield "data: [DONE]\n\n"


def _usage(reply: Reply) -> dict[str, int]:
    prompt, completion = reply.prompt_tokens, reply.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def _refusal(_: Request, error: Exception) -> Response:
    if isinstance(error, Refused):
        return _problem(str(error), error.status, error.code)
    if isinstance(error, UsageError):
        return _problem(str(error), 422, "usage")
    return _problem(str(error), 502, "infrastructure")


async def _failure(_: Request, error: Exception) -> Response:
    return _problem(describe(error), 500, "server_error")


def _problem(message: str, status: int, code: str) -> Response:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return JSONResponse({"error": {"message": message, "type": kind, "code": code, "param": None}}, status)
