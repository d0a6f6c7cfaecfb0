"""Sandboxes of this machine for others, over HTTP: frames of the agent's protocol go in and come out as they are.

Whoever has the token can run programs in sandboxes here; the server itself runs and reads nothing of what passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym.choices import limits_from
from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.leases import Held, Leases, NoSuchLease
from agentgym.tools.sandbox.limits import Limits
from agentgym.tools.sandbox.protection import Protection, Threat
from agentgym.tools.sandbox.spec import SandboxSpec, Tier

T = TypeVar("T")
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


def caps_from(wanted: Mapping[str, Any]) -> Limits:
    """Return the most that clients may ask for. Raises `UsageError` for what is no limit, or no number."""
    given = limits_from(Limits, wanted)
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"sandbox limit {name} must be a number, not {value!r}")
    return GENEROUS.but(**given)


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
    app.include_router(_state(offer, serving, leases))
    app.include_router(_sandboxes(offer, serving, leases))
    return app


def _state(offer: Offer, serving: Serving, leases: Leases) -> APIRouter:
    """What is served, and which sandboxes there still are."""
    router = APIRouter()

    @router.get("/")
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

    @router.post("/renew")
    def renew(names: _Names) -> dict[str, list[str]]:
        return {"gone": leases.renew(names.ids)}

    return router


def _sandboxes(offer: Offer, serving: Serving, leases: Leases) -> APIRouter:
    """Opening, using and closing them. Their work is done in threads, of which there are enough for all of them."""
    router = APIRouter(prefix="/sandboxes")
    threads = anyio.CapacityLimiter(2 * serving.sandboxes + 4)

    def in_thread(work: Callable[..., T], *arguments: Any) -> Awaitable[T]:
        return anyio.to_thread.run_sync(work, *arguments, limiter=threads)

    @router.post("", status_code=201)
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

    @router.post("/{name}/frames")
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

    @router.delete("/{name}", status_code=204)
    async def close(name: str) -> None:
        await in_thread(leases.close, name)

    return router


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
