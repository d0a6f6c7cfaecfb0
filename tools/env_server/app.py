"""The web application that serves environments over plain HTTP: what the WebSocket does, a request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException

from agentgym import __version__
from agentgym.engine.threads import blocking
from agentgym.interop.remote.wire import PROTOCOL
from agentgym.tools.env_server.metrics import as_text, metrics_of
from agentgym.tools.env_server.offer import Offer
from agentgym.tools.env_server.problems import OF_SESSION, PROBLEMS, REFUSALS, invalid, refused, response_of
from agentgym.tools.env_server.running import Reply
from agentgym.tools.env_server.session import INTERRUPTIONS
from agentgym.tools.env_server.sessions import Sessions
from agentgym.tools.serving.answers import HANDLERS, TokenRequired

_ABOUT = (
    "Sessions of multi-turn tool-use environments. Open one, reset it, step it until `terminated` or `truncated`, and "
    "delete it. An error has a `kind`: `usage`, `task`, `reset_needed`, `gone`, `busy`, `out_of_time` or "
    "`infrastructure`; only what the *model* does wrong is part of an observation."
)


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Opening(_Request):
    """What session to open."""

    env: str | None = Field(None, description="The environment; not needed if the server has one.")
    arguments: dict[str, Any] = Field({}, description="Arguments that the environment lets clients set.")


class _Numbered(_Request):
    number: int | None = Field(
        None,
        ge=1,
        description="Numbers a session's changes from 1. A request that is sent again under its number is answered "
        "again, not played again.",
    )


class Reset(_Numbered):
    """How an episode starts."""

    seed: int | None = Field(None, ge=0)
    options: dict[str, Any] | None = Field(None, description="`task` (an id), or `split` and `index`.")


class Step(_Numbered):
    """One turn."""

    # The session looks at its type: text of a model may hold what is no Unicode, which `str` would refuse here.
    action: Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})] = Field(
        description="What the model wrote, or an assistant message with tool_calls."
    )


class Interruption(_Numbered):
    """The end of an episode for a reason on the policy's side."""

    reason: str = Field(description=f"One of: {', '.join(INTERRUPTIONS)}.")


class Opened(BaseModel):
    """A new session."""

    session: str = Field(description="Its name. Who knows it can play it.")
    description: dict[str, Any] = Field(description="The environment: tools, channels, splits, limits.")


class Begun(BaseModel):
    """The beginning of an episode."""

    observation: list[dict[str, Any]] = Field(description="The messages that open it.")
    info: dict[str, Any]
    task: dict[str, Any] = Field(description="Without data and gold, unless the server reveals them.")


class Played(BaseModel):
    """What a turn led to."""

    observation: list[dict[str, Any]] = Field(description="The messages that the model reads next.")
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Closed(BaseModel):
    """Nothing."""


def make_app(sessions: Sessions, offer: Offer, token: str) -> FastAPI:
    """Return the application. Every path needs the token."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sessions.start()
        yield
        await blocking.run(sessions.close)

    app = FastAPI(title="agentgym environments", version=__version__, description=_ABOUT, lifespan=lifespan)
    app.add_middleware(TokenRequired, token=token)
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    _add_routes(app, sessions, offer)
    return app


def _add_routes(app: FastAPI, sessions: Sessions, offer: Offer) -> None:
    metrics = metrics_of(sessions)

    async def answer(content: Mapping[str, Any]) -> Response:
        return response_of(await _answered(sessions, content))

    @app.get("/", summary="What is served", responses=REFUSALS)
    async def about() -> dict[str, Any]:
        return {"service": "agentgym environments", "protocol": PROTOCOL, "envs": offer.envs, "sessions": len(sessions)}

    @app.get("/metrics", response_class=PlainTextResponse, summary="Counts for Prometheus", responses=REFUSALS)
    async def prometheus() -> Response:
        return Response(as_text(metrics), media_type="text/plain; version=0.0.4")

    @app.post("/sessions", summary="Open a session", response_model=Opened, responses=PROBLEMS)
    async def open_session(opening: Annotated[Opening, Body()]) -> Response:
        return await answer({"op": "open", "protocol": PROTOCOL, **dict(opening)})

    @app.post("/sessions/{session}/reset", summary="Start an episode", response_model=Begun, responses=OF_SESSION)
    async def reset(session: str, reset: Annotated[Reset, Body()]) -> Response:
        return await answer({"op": "reset", "session": session, **dict(reset)})

    @app.post("/sessions/{session}/step", summary="Play one turn", response_model=Played, responses=OF_SESSION)
    async def step(session: str, step: Annotated[Step, Body()]) -> Response:
        return await answer({"op": "step", "session": session, **dict(step)})

    @app.post(
        "/sessions/{session}/interrupt",
        summary="End the episode, and grade it",
        response_model=Played,
        responses=OF_SESSION,
    )
    async def interrupt(session: str, interruption: Annotated[Interruption, Body()]) -> Response:
        return await answer({"op": "interrupt", "session": session, **dict(interruption)})

    @app.delete("/sessions/{session}", summary="Close a session", response_model=Closed, responses=OF_SESSION)
    async def close(session: str) -> Response:
        return await answer({"op": "close", "session": session})


async def _answered(sessions: Sessions, content: Mapping[str, Any]) -> Reply:
    """Return the reply to a request, from whatever thread has it first."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[Reply] = loop.create_future()
    work = asyncio.create_task(blocking.run(lambda: sessions.answer(content, deliver)))

    def deliver(reply: Reply, _: bool) -> None:
        loop.call_soon_threadsafe(lambda: came.done() or came.set_result(reply))

    await asyncio.wait((came, work), return_when=asyncio.FIRST_COMPLETED)
    if not came.done():
        await work  # which has failed: every reply is delivered before its work is done
    return await came
