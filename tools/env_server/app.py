"""The web application that serves environments: over the WebSocket that `RemoteEnv` uses, and over plain HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI, Response, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException

from agentgym import __version__
from agentgym.interop.remote.wire import PROTOCOL, STREAM
from agentgym.tools.env_server.offer import EnvOffer, EnvServing
from agentgym.tools.env_server.problems import OF_SESSION, PROBLEMS, REFUSALS, invalid, refused, response_of
from agentgym.tools.env_server.session import INTERRUPTIONS
from agentgym.tools.env_server.sessions import EnvSessions
from agentgym.tools.env_server.stream import converse
from agentgym.tools.serving.answers import HANDLERS, TokenRequired
from agentgym.tools.serving.running import run_server

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
