"""The web application of a gateway: chat completions for agents, and sessions and rewards for its owner."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from agentgym.base.errors import AgentGymError, UsageError
from agentgym.core.endings import Reason, reason_from
from agentgym.core.foreign import describe
from agentgym.core.trajectory import Trajectory
from agentgym.interop.bodies import TooLarge, bounded_body, while_connected
from agentgym.interop.served.gateway.answer import ChatStream, completion, head_of, streamed
from agentgym.interop.served.gateway.gateway import Gateway
from agentgym.interop.served.gateway.request import ChatError, ChatRequest, RequestRefused, chat_error
from agentgym.interop.served.gateway.row import ChatReply
from agentgym.interop.served.gateway.session import GatewaySession, SessionTask
from agentgym.interop.served.gateway.turn import TurnDraft

BODY_BYTES = 32 << 20
"""A call carries the whole conversation, including pictures."""

_RETRY_HEADER = "x-stainless-retry-count"
"""Set by OpenAI's client to the number of times that it has already sent the same call."""

_CLIENT_LEFT = 499
_SESSION_TASK = TypeAdapter(SessionTask)
_TASK_FIELDS = ("env_id", "task_id", "seed", "training_step")

Handler = Callable[[Request], Awaitable[Response]]


def make_app(gateway: Gateway, body_bytes: int = BODY_BYTES) -> FastAPI:
    """Return the application.

    Args:
        gateway: The gateway to serve.
        body_bytes: Maximum size of a request's body.
    """
    endpoints = _Endpoints(gateway, body_bytes)
    of_agents: list[tuple[str, Handler, str]] = [
        ("/v1/chat/completions", endpoints.chat, "POST"),
        ("/v1/models", endpoints.models, "GET"),
        ("/v1/models/{model:path}", endpoints.model, "GET"),
    ]
    of_owner: list[tuple[str, Handler, str]] = [
        ("/s/{session}", endpoints.open, "POST"),
        ("/s/{session}/reward", endpoints.reward, "POST"),
    ]
    in_sessions = [(f"/s/{{session}}{path}", handler, method) for path, handler, method in of_agents]
    app = FastAPI(openapi_url=None, exception_handlers=_ERROR_HANDLERS)
    for path, handler, method in (*of_agents, *in_sessions, *of_owner):
        app.add_api_route(path, handler, methods=[method])
    return app


class _Endpoints:
    """The request handlers."""

    def __init__(self, gateway: Gateway, body_bytes: int):
        self._gateway, self._body_bytes = gateway, body_bytes

    async def chat(self, request: Request) -> Response:
        """Answer a call of an agent."""
        session = self._session(request)
        call = ChatRequest.of(await self._body(request))
        is_retry = request.headers.get(_RETRY_HEADER, "0") != "0"
        head = head_of(session.name, call.model or self._gateway.policy.name)
        headers = {"x-agentgym-ignored": ", ".join(call.ignored)} if call.ignored else {}

        async def reply(draft: TurnDraft | None = None) -> ChatReply:
            return await session.reply(call, is_retry=is_retry, draft=draft)

        if call.stream:
            return await streamed(request, reply, ChatStream(head, call), headers, self._gateway.settings.silent_s)
        return JSONResponse(completion(head, await while_connected(request, reply()), call), headers=headers)

    async def models(self, request: Request) -> Response:
        """List the gateway's only model."""
        self._session(request)
        return JSONResponse({"object": "list", "data": [_model(self._gateway.policy.name)]})

    async def model(self, request: Request) -> Response:
        """Describe the model under the requested name. Agents may use any name for it."""
        self._session(request)
        return JSONResponse(_model(request.path_params["model"]))

    async def open(self, request: Request) -> Response:
        """Open a session for its owner."""
        self._check_owner(request)
        played = _session_task(await self._body(request))
        session = self._gateway.session(request.path_params["session"], played)
        return JSONResponse({"session": session.name, "api_key": session.api_key, "base_url": session.base_url})

    async def reward(self, request: Request) -> Response:
        """End a session and return its trajectories."""
        self._check_owner(request)
        session = self._gateway.find(request.path_params["session"])
        _end(session, await self._body(request))
        trajectories = self._gateway.close_session(session)
        return JSONResponse({"trajectories": [trajectory.to_dict() for trajectory in trajectories]})

    def _session(self, request: Request) -> GatewaySession:
        """Return the session of an agent, which its key names. The owner's key may be used in every session."""
        name, name_in_key = request.path_params.get("session"), self._gateway.session_in(_key(request))
        if name_in_key is None or (name_in_key and name not in (None, name_in_key)):
            raise RequestRefused("the API key is missing or wrong", 401, "invalid_api_key")
        return self._gateway.find_or_open(name or name_in_key or "default", by_owner=not name_in_key)

    def _check_owner(self, request: Request) -> None:
        if not self._gateway.is_owner(_key(request)):
            raise RequestRefused("only the gateway's owner may do this", 401, "invalid_api_key")

    async def _body(self, request: Request) -> Mapping[str, Any]:
        """Return the JSON object in a request's body. Raises `RequestRefused` if it is too large or not an object."""
        try:
            return _parsed(await bounded_body(request, self._body_bytes))
        except TooLarge as error:
            raise RequestRefused(str(error), 413, "request_too_large") from None


def _key(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ").strip()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentgym"}


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body or b"{}", parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate, which JSON can escape, cannot be tokenised
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"the body is not JSON in UTF-8: {error}") from None
    if not isinstance(value, Mapping):
        raise RequestRefused("the body must be a JSON object")
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


class _Ending(BaseModel):
    """How a session ends."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    reward: float
    channels: dict[str, float] | None = None
    reason: str = Reason.ANSWERED.value
    error: str | None = None


def _session_task(body: Mapping[str, Any]) -> SessionTask:
    """Return the task in a request to open a session. Raises `UsageError` if it is malformed."""
    if unknown := sorted(set(body) - set(_TASK_FIELDS)):
        raise UsageError(f"a session has no field {unknown[0]!r}; it has: {', '.join(_TASK_FIELDS)}")
    try:
        return _SESSION_TASK.validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        raise UsageError(f"a session cannot be opened: {_first_problem(error)}") from None


def _end(session: GatewaySession, body: Mapping[str, Any]) -> None:
    """End a session as its owner requests. Raises `UsageError` if the request is malformed."""
    if (record := body.get("record")) is not None:
        session.end(_record(record))
    elif body.get("error") is not None and "reward" not in body:
        session.fail(str(body["error"]))
    else:
        _reward(session, body)


def _reward(session: GatewaySession, body: Mapping[str, Any]) -> None:
    try:
        ending = _Ending.model_validate(dict(body))
        reason = reason_from(ending.reason)
    except (ValidationError, ValueError) as error:
        why = _first_problem(error) if isinstance(error, ValidationError) else error
        raise UsageError(f"a reward is {{'reward': 1.0}}, optionally with 'channels' and 'reason': {why}") from None
    session.reward(ending.reward, channels=ending.channels, reason=reason, error=ending.error)


def _record(record: Any) -> Trajectory:
    try:
        return Trajectory.from_dict(record)
    except Exception as error:
        raise UsageError(f"the record is not a trajectory: {describe(error)}") from error


def _first_problem(error: ValidationError) -> str:
    """Return the location and message of the first validation error."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


async def _on_error(_: Request, error: Exception) -> Response:
    return _error_answer(chat_error(error))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return _error_answer(ChatError(message, error.status_code, "not_found"))


async def _on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=_CLIENT_LEFT)


def _error_answer(problem: ChatError) -> Response:
    """Return an error response. OpenAI's clients retry after some 4xx statuses unless a header says otherwise."""
    headers = {"x-should-retry": "false"} if problem.status < 500 else {}
    return JSONResponse({"error": problem.body}, problem.status, headers)


_ERROR_HANDLERS: dict[Any, Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    AgentGymError: _on_error,
    HTTPException: _on_http_error,
    ClientDisconnect: _on_disconnect,
    Exception: _on_error,
}
