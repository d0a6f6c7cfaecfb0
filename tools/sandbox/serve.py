"""Sandboxes of this machine for others, over HTTP: frames of the agent's protocol go in and come out as they are.

Whoever has the token can run programs in sandboxes here; the server itself runs and reads nothing of what passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.leases import Held, Leases, NoSuchLease
from agentgym.tools.sandbox.limits import Limits
from agentgym.tools.sandbox.protection import Protection, Threat
from agentgym.tools.sandbox.spec import SandboxSpec, Tier

_log = logging.getLogger(__name__)
_MAX_SPEC_BYTES = 1 << 20
GENEROUS = Limits(
    wall_s=7_200,
    cpu_s=7_200,
    memory_mb=32_768,
    total_memory_mb=32_768,
    processes=1_024,
    open_files=4_096,
    file_mb=32_768,
    disk_mb=32_768,
    files=2_000_000,
    output_bytes=64 << 20,
    reply_bytes=256 << 20,
)
"""More than any task of ours asks for, and not enough to take a machine for good."""


@dataclass(frozen=True)
class Serving:
    """How much a server gives."""

    token: str
    sandboxes: int = 64
    silent_s: float = 60.0
    """A sandbox whose client has not been heard of for so long is closed."""
    frame_bytes: int = 256 << 20
    limits: Limits = GENEROUS
    """The most that a client may ask for, for a sandbox and for each run in it."""

    def __post_init__(self) -> None:
        if len(self.token) < 16:
            raise UsageError("the token of a server must have at least 16 characters")


@dataclass(frozen=True)
class Offer:
    """What is served, and how one sandbox is made."""

    tier: Tier
    notes: str
    protections: Mapping[Threat, Protection]
    make: Callable[[SandboxSpec], Held]


class _Wanted(BaseModel):
    """A sandbox as a client asks for it. A folder to begin with comes afterwards, by frames."""

    model_config = ConfigDict(extra="forbid", strict=True)

    limits: dict[str, int | float] = {}
    image: str | None = None
    workdir: str = "/work"
    preload: list[str] = []
    environment: dict[str, str] = {}

    def spec(self) -> SandboxSpec:
        try:
            limits = Limits(**self.limits)  # pyright: ignore[reportArgumentType]
        except TypeError as error:
            raise UsageError(f"limits: {error}") from None
        return SandboxSpec(
            limits=limits,
            image=self.image,
            workdir=self.workdir,
            preload=tuple(self.preload),
            environment=self.environment,
        )


class _Names(BaseModel):
    ids: list[str]


def make_app(offer: Offer, serving: Serving) -> FastAPI:
    """Return the web application. All its paths need the token."""
    leases = Leases(at_most=serving.sandboxes, silent_s=serving.silent_s)
    threads = anyio.CapacityLimiter(2 * serving.sandboxes + 4)

    async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
        return await anyio.to_thread.run_sync(work, *arguments, limiter=threads)

    def check_token(request: Request) -> None:
        given = request.headers.get("authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {serving.token}".encode()):
            raise HTTPException(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(leases))
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.to_thread(leases.close_all)

    app = FastAPI(
        lifespan=lifespan, dependencies=[Depends(check_token)], docs_url=None, redoc_url=None, openapi_url=None
    )

    @app.get("/")
    def about() -> dict[str, Any]:
        return {
            "tier": offer.tier,
            "notes": offer.notes,
            "protections": {threat: [row.held, row.how] for threat, row in offer.protections.items()},
            "silent_s": serving.silent_s,
            "sandboxes": serving.sandboxes,
            "open": len(leases),
            "frame_bytes": serving.frame_bytes,
        }

    @app.post("/sandboxes", status_code=201)
    async def open_(request: Request) -> dict[str, str]:
        spec = _spec(await _body(request, _MAX_SPEC_BYTES))
        _check(serving.limits, spec.limits.to_dict())
        try:
            name, held = await in_thread(leases.open, lambda: offer.make(spec))
        except UsageError as error:
            raise HTTPException(400, str(error)) from None
        except InfrastructureError as error:
            raise HTTPException(503, str(error)) from None
        return {"id": name, "workdir": held.workdir, "notes": held.notes}

    @app.post("/sandboxes/{name}/frames")
    async def exchange(name: str, request: Request) -> Response:
        frame = await _body(request, serving.frame_bytes)
        _check(serving.limits, _limits_in(frame))
        try:
            answer = await in_thread(leases.exchange, name, frame)
        except NoSuchLease:
            raise HTTPException(404, "there is no such sandbox, or no longer") from None
        except (InfrastructureError, OSError, EOFError) as error:
            await in_thread(leases.close, name)
            raise HTTPException(410, f"the sandbox has ended: {error}") from None
        return Response(answer, media_type="application/octet-stream")

    @app.delete("/sandboxes/{name}", status_code=204)
    async def close(name: str) -> None:
        await in_thread(leases.close, name)

    @app.post("/renew")
    def renew(names: _Names) -> dict[str, list[str]]:
        return {"gone": leases.renew(names.ids)}

    return app


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port") from None
    listening.listen(1024)
    return listening


def run_server(app: FastAPI, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; then end all sandboxes."""
    config = uvicorn.Config(
        app, log_level="warning", timeout_graceful_shutdown=2, timeout_keep_alive=60, server_header=False
    )
    _Server(config).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends by itself on a signal. The one it comes from lets the signal kill the process once the server has ended."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


async def _sweep(leases: Leases) -> None:
    while True:
        await asyncio.sleep(min(5.0, leases.silent_s / 4))
        closed = await asyncio.to_thread(leases.close_silent)
        if closed:
            _log.info("closed %d sandboxes whose client has gone silent", closed)


async def _body(request: Request, at_most: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > at_most:
            raise HTTPException(413, f"the request is larger than {at_most} bytes")
    return bytes(body)


def _check(most: Limits, wanted: Mapping[str, Any]) -> None:
    try:
        most.refuse_above(wanted)
    except UsageError as error:
        raise HTTPException(400, str(error)) from None


def _limits_in(frame: bytes) -> Mapping[str, Any]:
    """Return the limits that a request frame names; none for what is no request, which the sandbox will say."""
    try:
        limits = wire.header_of(frame).get("limits")
    except wire.BadFrame:
        return {}
    return limits if isinstance(limits, dict) else {}


def _spec(body: bytes) -> SandboxSpec:
    try:
        return _Wanted.model_validate_json(body).spec()
    except (ValidationError, UsageError) as error:
        raise HTTPException(400, f"not a sandbox that can be asked for: {error}") from None
