"""The web application that serves environments: over the WebSocket that `RemoteEnv` uses, and over plain HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException

from agentgym import __version__
from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.interop.served.wire import BUSY, GONE, PROTOCOL, STREAM, decoded, encoded_reply, error_data
from agentgym.tools.env_server.offer import EnvOffer, EnvServing
from agentgym.tools.env_server.session import INTERRUPTIONS
from agentgym.tools.env_server.sessions import EnvSessions
from agentgym.tools.serving.answers import HANDLERS, RETRY_S, TokenRequired
from agentgym.tools.serving.running import run_server

_STATUS: Mapping[str, int] = {
    "usage": 422,
    "no_solution": 422,
    "task": 404,
    "broken_task": 404,
    "reset_needed": 409,
    GONE: 410,
    BUSY: 503,
    "out_of_time": 504,
    "infrastructure": 502,
}


class ErrorDetail(BaseModel):
    """The error. The *model's* mistakes are not errors: they are part of an observation."""

    kind: Literal[
        "usage", "task", "broken_task", "reset_needed", "gone", "busy", "out_of_time", "infrastructure", "no_solution"
    ]
    message: str
    facts: dict[str, Any] | None = Field(None, description="Of `out_of_time`: `reason`, `what` and `limit_s`.")


class ErrorResponse(BaseModel):
    """The response to a request that was understood but has no result."""

    error: ErrorDetail


class Refusal(BaseModel):
    """The response to a request that did not reach a session: no token, too large, no length, or server shutdown."""

    detail: str


def _declared(model: Any, description: str) -> dict[str, Any]:
    return {"model": model, "description": description}


REFUSALS: dict[int | str, dict[str, Any]] = {
    401: _declared(Refusal, "The token is missing or wrong."),
    503: _declared(ErrorResponse | Refusal, "The server has no room at present, or is stopping."),
}
"""Error responses of every path."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    **REFUSALS,
    400: _declared(ErrorResponse, "The body is not JSON."),
    404: _declared(ErrorResponse, "There is no such task or split."),
    411: _declared(Refusal, "The request has no Content-Length."),
    413: _declared(Refusal, "The request is too large."),
    422: _declared(ErrorResponse, "The request asks for something impossible."),
    502: _declared(ErrorResponse, "Something around the model broke: the episode has failed and has no reward."),
    504: _declared(ErrorResponse, "It took too long: the session has ended and its episode has failed."),
}
"""Error responses of every path that changes something."""
OF_SESSION: dict[int | str, dict[str, Any]] = {
    **PROBLEMS,
    409: _declared(ErrorResponse, "No episode is running: it has ended, failed, or never began."),
    410: _declared(ErrorResponse, "There is no such session; it may have ended."),
}
"""Error responses of every path of a session."""


def response_of(reply: Mapping[str, Any]) -> Response:
    """Return a reply as an HTTP response: the bare result, or the error with its status."""
    if (error := reply.get("error")) is None:
        try:
            return _json(encoded_reply(reply["result"]), 200)
        except InfrastructureError as problem:
            error = error_data(problem)
    status = _STATUS.get(error["kind"], 502)
    return _json(encoded_reply({"error": error}), status, {"Retry-After": str(RETRY_S)} if status == 503 else None)


async def invalid(_: Request, error: Exception) -> Response:
    """Respond to a body that does not match its schema."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"] if part != "body")
    message = f"{where}: {problem['msg']}" if where else str(problem["msg"])
    return response_of({"error": error_data(UsageError(message))})


async def refused(request: Request, error: Exception) -> Response:
    """Respond to an unreadable body, an unknown path or an unsupported method."""
    assert isinstance(error, HTTPException)
    message = (
        "the body is not JSON" if error.status_code == 400 else f"{request.method} {request.url.path}: {error.detail}"
    )
    content = {"error": error_data(UsageError(message))}
    return _json(encoded_reply(content), error.status_code, dict(error.headers or {}))


def _json(body: bytes, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


_GOING_AWAY = 1001


async def converse(websocket: WebSocket, sessions: EnvSessions, idle_s: float) -> None:
    """Answer requests until the client leaves or is idle; its session can continue over another WebSocket."""
    await websocket.accept()
    with suppress(WebSocketDisconnect):
        try:
            while True:  # no local variable: while waiting, nothing keeps the last request in memory
                await websocket.send_text(await _answer(await _receive(websocket, idle_s), sessions))
        except TimeoutError:
            await websocket.close(_GOING_AWAY)


async def _receive(websocket: WebSocket, idle_s: float) -> bytes:
    """Return the next message, text or bytes.

    Raises:
        TimeoutError: No message arrived in time.
        WebSocketDisconnect: The client has left.
    """
    async with asyncio.timeout(idle_s):
        message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message["code"])
    text = message.get("text")
    return message["bytes"] if text is None else text.encode()


async def _answer(text: bytes, sessions: EnvSessions) -> str:
    try:
        content = decoded(text)
    except UsageError as error:
        return _encoded(None, {"error": error_data(error)})
    return _encoded(content.get("id"), await sessions.answer(content))


def _encoded(number: Any, reply: dict[str, Any]) -> str:
    number = number if isinstance(number, int | str) else None
    try:
        text = encoded_reply({"id": number, **reply})
    except InfrastructureError as error:
        text = encoded_reply({"id": number, "error": error_data(error)})
    return text.decode()


_ABOUT = (
    "Sessions of multi-turn tool-use environments. Open one, reset it, step it until `terminated` or `truncated`, and "
    "delete it. An error has a `kind`: `usage`, `task`, `reset_needed`, `gone`, `busy`, `out_of_time` or "
    "`infrastructure`; only the *model's* mistakes are part of an observation."
)


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class OpenRequest(_Request):
    """The session to open."""

    env: str | None = Field(None, description="The environment; not needed if the server has one.")
    arguments: dict[str, Any] = Field({}, description="Arguments that the environment lets clients set.")


class _Numbered(_Request):
    number: int | None = Field(
        None,
        ge=1,
        description="Numbers a session's changes from 1. A request sent again under the same number gets the same "
        "answer and is not played twice.",
    )


class ResetRequest(_Numbered):
    """How an episode starts."""

    seed: int | None = Field(None, ge=0)
    options: dict[str, Any] | None = Field(None, description="`task` (an id), or `split` and `index`.")


class StepRequest(_Numbered):
    """One turn."""

    # The session checks the type: `str` would refuse model text with lone surrogates here.
    action: Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})] = Field(
        description="The model's text, or an assistant message with tool_calls."
    )


class InterruptRequest(_Numbered):
    """The end of an episode for a reason on the policy's side."""

    reason: str = Field(description=f"One of: {', '.join(INTERRUPTIONS)}.")


class OpenResponse(BaseModel):
    """A new session."""

    session: str = Field(description="Its name. Any client that knows it can play it.")
    description: dict[str, Any] = Field(description="The environment: tools, channels, splits, limits.")


class ResetResponse(BaseModel):
    """The start of an episode."""

    observation: list[dict[str, Any]] = Field(description="The opening messages.")
    info: dict[str, Any]
    task: dict[str, Any] = Field(description="Without data and gold, unless the server reveals them.")


class StepResponse(BaseModel):
    """The result of a turn."""

    observation: list[dict[str, Any]] = Field(description="The messages that the model reads next.")
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class CloseResponse(BaseModel):
    """Nothing."""


def make_app(offer: EnvOffer, serving: EnvServing) -> FastAPI:
    """Return the application. Every path needs the token. Its `state.sessions` are the sessions."""
    sessions = EnvSessions(offer, serving)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(sessions.watch())
        yield
        watching.cancel()
        await sessions.close()

    app = FastAPI(title="agentgym environments", version=__version__, description=_ABOUT, lifespan=lifespan)
    app.state.sessions = sessions
    app.add_middleware(TokenRequired, token=serving.token)
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    _add_routes(app, sessions, offer)

    @app.websocket(STREAM)
    async def stream(websocket: WebSocket) -> None:
        await converse(websocket, sessions, serving.idle_s)

    return app


def serve_envs(offer: EnvOffer, serving: EnvServing, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    run_server(make_app(offer, serving), listening, **limits_of(serving))


def limits_of(serving: EnvServing) -> dict[str, Any]:
    """Return the limits of a server's connections, for `run_server`."""
    return {"body_bytes": serving.request_bytes, "sessions": serving.sessions, "streams": True}


def _add_routes(app: FastAPI, sessions: EnvSessions, offer: EnvOffer) -> None:
    async def respond(content: Mapping[str, Any]) -> Response:
        return response_of(await sessions.answer(content))

    @app.get("/", summary="Describe the server", responses=REFUSALS)
    async def about() -> dict[str, Any]:
        return {"service": "agentgym environments", "protocol": PROTOCOL, "envs": offer.envs, "sessions": len(sessions)}

    @app.get("/metrics", response_class=PlainTextResponse, summary="Counts for Prometheus", responses=REFUSALS)
    async def prometheus() -> Response:
        return Response(sessions.metrics.as_text(), media_type="text/plain; version=0.0.4")

    @app.post("/sessions", summary="Open a session", response_model=OpenResponse, responses=PROBLEMS)
    async def open_session(opening: Annotated[OpenRequest, Body()]) -> Response:
        return await respond({"op": "open", "protocol": PROTOCOL, **dict(opening)})

    @app.post(
        "/sessions/{session}/reset", summary="Start an episode", response_model=ResetResponse, responses=OF_SESSION
    )
    async def reset(session: str, reset: Annotated[ResetRequest, Body()]) -> Response:
        return await respond({"op": "reset", "session": session, **dict(reset)})

    @app.post("/sessions/{session}/step", summary="Play one turn", response_model=StepResponse, responses=OF_SESSION)
    async def step(session: str, step: Annotated[StepRequest, Body()]) -> Response:
        return await respond({"op": "step", "session": session, **dict(step)})

    @app.post(
        "/sessions/{session}/interrupt",
        summary="End the episode and grade it",
        response_model=StepResponse,
        responses=OF_SESSION,
    )
    async def interrupt(session: str, interruption: Annotated[InterruptRequest, Body()]) -> Response:
        return await respond({"op": "interrupt", "session": session, **dict(interruption)})

    @app.delete("/sessions/{session}", summary="Close a session", response_model=CloseResponse, responses=OF_SESSION)
    async def close(session: str) -> Response:
        return await respond({"op": "close", "session": session})
