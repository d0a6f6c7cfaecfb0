"""Sandboxes of this machine for others, over HTTP: frames of the agent's protocol go in and come out as they are.

Whoever has the token can run programs in sandboxes here; the server itself runs nothing of what passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agentgym.choices import limits_from
from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.leases import Held, LeaseBusy, Leases, NoSuchLease, TooManyForClient
from agentgym.tools.sandbox.limits import Limits
from agentgym.tools.sandbox.protection import Protection, Threat
from agentgym.tools.sandbox.room import most_in_answer
from agentgym.tools.sandbox.spec import SandboxSpec, Tier
from agentgym.tools.sandbox.wanted import spec_in
from agentgym.tools.serving.answers import HANDLERS, BytesInPieces, TokenRequired, answer
from agentgym.tools.serving.bodies import length_of, read_body, read_object
from agentgym.tools.serving.presence import presence_of
from agentgym.tools.serving.turns import Turns

T = TypeVar("T")
_log = logging.getLogger(__name__)
_MAX_SPEC_BYTES = 1 << 20
_MAX_WAITING = 256
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
    per_client: int | None = None
    """Sandboxes open at one time for one address; as many as for all together if not given."""
    workdirs: int = 8
    """Different workdirs at one time: each has a process of its own that makes its sandboxes."""
    silent_s: float = 60.0
    """A sandbox whose client has not been heard of for so long is closed."""
    frame_bytes: int = 256 << 20
    memory_mb: int = 1536
    """Of requests under way, a third, and of what their answers may be, the rest; what is more than that waits."""
    patience_s: float = 60.0
    """How long a request may wait for either."""
    limits: Limits = GENEROUS
    """The most that a client may ask for, for a sandbox and for each run in it."""

    def __post_init__(self) -> None:
        if len(self.token) < 16:
            raise UsageError("the token of a server must have at least 16 characters")
        if self.frame_bytes > self.frames_bytes:
            object.__setattr__(self, "frame_bytes", self.frames_bytes)

    @property
    def frames_bytes(self) -> int:
        """All requests under way together."""
        return (self.memory_mb << 20) // 3

    @property
    def answers_bytes(self) -> int:
        """The most that all answers under way may be together."""
        return (self.memory_mb << 20) - self.frames_bytes


@dataclass(frozen=True)
class Offer:
    """What is served, and how one sandbox is made."""

    tier: Tier
    notes: str
    protections: Mapping[Threat, Protection]
    make: Callable[[SandboxSpec], Held]
    images: bool = True
    """Whether a sandbox can be asked for with an image."""


def make_app(offer: Offer, serving: Serving) -> Starlette:
    """Return the web application. All its paths need the token. Whoever ends it calls its `state.stop` first."""
    served = _Served(offer, serving)
    app = Starlette(
        routes=[
            Route("/", served.about, methods=["GET"]),
            Route("/renew", served.renew, methods=["POST"]),
            Route("/sandboxes", served.open, methods=["POST"]),
            Route("/sandboxes/{name}/frames", _Application(served.exchange), methods=["POST"]),
            Route("/sandboxes/{name}", served.close, methods=["DELETE"]),
        ],
        middleware=[Middleware(TokenRequired, serving.token)],
        exception_handlers=HANDLERS,
        lifespan=served.lifespan,
    )
    app.state.stop = served.stop
    return app


class _Served:
    """Sandboxes as they are served. Their work is done in threads, of which there are enough for all of them."""

    def __init__(self, offer: Offer, serving: Serving) -> None:
        self._offer = offer
        self._serving = serving
        self._leases = Leases(
            at_most=serving.sandboxes,
            silent_s=serving.silent_s,
            per_client=serving.per_client,
            kinds=serving.workdirs,
        )
        self._threads = anyio.CapacityLimiter(2 * serving.sandboxes + 4)
        # Whoever holds room for an answer waits for nothing more, so that two kinds of room cannot block each other.
        self._frames = Turns(serving.frames_bytes, _MAX_WAITING, serving.patience_s)
        self._answers = Turns(serving.answers_bytes, _MAX_WAITING, serving.patience_s)
        self._stopping: asyncio.Future[None] | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Close the sandboxes of silent clients all the time, and all of them in the end."""
        sweeping = asyncio.create_task(_sweep(self._leases))
        try:
            yield
        finally:
            sweeping.cancel()
            await (self._stopping or asyncio.to_thread(self._leases.close_all))

    def stop(self) -> None:
        """Begin to close all sandboxes, which ends what waits for their answers."""
        self._frames.close()
        self._answers.close()
        self._stopping = asyncio.get_running_loop().run_in_executor(None, self._leases.close_all)

    async def about(self, _: Request) -> Response:
        """Say what is served."""
        return answer(
            {
                "tier": self._offer.tier,
                "notes": self._offer.notes,
                "protections": {threat: [row.held, row.how] for threat, row in self._offer.protections.items()},
                "silent_s": self._serving.silent_s,
                "sandboxes": self._serving.sandboxes,
                "open": len(self._leases),
                "frame_bytes": self._serving.frame_bytes,
            }
        )

    async def renew(self, request: Request) -> Response:
        """Note that a client still wants its sandboxes."""
        names = (await read_object(request, _MAX_SPEC_BYTES)).get("ids")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise HTTPException(422, '"ids" must be a list of strings')
        return answer({"gone": self._leases.renew(names)})

    async def open(self, request: Request) -> Response:
        """Make a sandbox."""
        content = await read_object(request, _MAX_SPEC_BYTES)
        try:
            spec = spec_in(content, self._serving.limits, images=self._offer.images)
            name, held = await self._in_thread(
                lambda: self._leases.open(lambda: self._offer.make(spec), client=_address(request), kind=spec.workdir)
            )
        except UsageError as error:
            raise HTTPException(400, str(error)) from None
        except TooManyForClient as error:
            raise HTTPException(429, str(error)) from None
        except InfrastructureError as error:
            raise HTTPException(503, str(error)) from None
        if presence_of(request).gone:
            await self._in_thread(self._leases.close, name)
        return answer({"id": name, "workdir": held.workdir, "notes": held.notes}, 201)

    async def exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a frame on to a sandbox and its answer back. Both keep their room until the answer has been read."""
        request = Request(scope, receive)
        name, client = request.path_params["name"], presence_of(request)
        if not self._leases.has(name):
            raise _no_such_sandbox()
        async with self._frames.turn(client, length_of(request)):
            frame = await read_body(request, self._serving.frame_bytes)
            most = await self._in_thread(self._most_in_answer, frame)
            async with self._answers.turn(client, most):
                answered = await self._answered(name, frame, most)
                await BytesInPieces(answered)(scope, receive, send)

    async def _answered(self, name: str, frame: bytes, most: int) -> bytes:
        try:
            return await self._in_thread(self._leases.exchange, name, frame, most)
        except NoSuchLease:
            raise _no_such_sandbox() from None
        except LeaseBusy as error:
            raise HTTPException(429, str(error)) from None
        except (InfrastructureError, OSError, EOFError) as error:
            await self._in_thread(self._leases.close, name)
            raise HTTPException(410, f"the sandbox has ended: {error}") from None

    async def close(self, request: Request) -> Response:
        """End a sandbox."""
        await self._in_thread(self._leases.close, request.path_params["name"])
        return Response(status_code=204)

    def _most_in_answer(self, frame: bytes) -> int:
        """Return how large the answer to a frame may be; refuse limits that are above those of the server."""
        try:
            header = wire.header_of(frame)
        except wire.BadFrame:
            return 0  # What is no request is answered by the sandbox's other end, which will say so.
        limits = header.get("limits")
        try:
            self._serving.limits.refuse_above(limits if isinstance(limits, dict) else {})
        except UsageError as error:
            raise HTTPException(400, str(error)) from None
        return min(most_in_answer(header), self._serving.answers_bytes)

    def _in_thread(self, work: Callable[..., T], *arguments: Any) -> Awaitable[T]:
        return anyio.to_thread.run_sync(work, *arguments, limiter=self._threads)


async def _sweep(leases: Leases) -> None:
    while True:
        await asyncio.sleep(min(5.0, leases.silent_s / 4))
        closed = await asyncio.to_thread(leases.close_silent)
        if closed:
            _log.info("closed %d sandboxes whose client has gone silent", closed)


class _Application:
    """Lets a method be an ASGI application of its own; Starlette takes a bare one for a function of a request."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _no_such_sandbox() -> HTTPException:
    return HTTPException(404, "there is no such sandbox, or no longer")
