"""A server that offers this machine's sandboxes over HTTP and passes the agent protocol's frames through unchanged.

Anyone with the token can run programs in its sandboxes; the server itself never executes what it forwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agentgym.base.choices import limits_from
from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.engine.threads import blocking
from agentgym.interop.bodies import length_of
from agentgym.tools.sandbox import answers
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.backend import Protection, Threat
from agentgym.tools.sandbox.leases import LeaseBusy, LeasedSandbox, Leases, NoSuchLease, TooManyForClient
from agentgym.tools.sandbox.spec import SandboxLimits, SandboxSpec, SandboxTier
from agentgym.tools.serving.answers import HANDLERS, TokenRequired, answer, in_pieces, read_body, read_object
from agentgym.tools.serving.turns import Turns

_SLACK_BYTES = 1 << 16
_LISTED_BYTES = 25_000
"""Maximum size of one entry of a listing: a path of 4,096 bytes, all of them escaped."""
_MOST_BYTES = 1 << 29


def max_answer_bytes(header: Mapping[str, Any]) -> int:
    """Return the maximum content bytes of a valid answer to a request."""
    total = _SLACK_BYTES
    limits = header.get("limits")
    if isinstance(limits, dict):
        total += 2 * _number(limits, "output_bytes") + _number(limits, "reply_bytes")
    # Besides file contents, archives contain names and sizes.
    total += 2 * _number(header, "max_bytes") + _LISTED_BYTES * _number(header, "max_entries")
    if "max_bytes" in header:
        total += 1 << 20
    return min(total, _MOST_BYTES)


def _number(numbers: Mapping[str, Any], name: str) -> int:
    value = numbers.get(name, 0)
    return min(int(value), _MOST_BYTES) if isinstance(value, int | float) and value > 0 else 0


_WORKDIR = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9._-]{0,63}){1,8}")
_SYSTEM = frozenset(("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr"))
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")
_MAX_VARIABLES = 256
_MAX_VARIABLES_CHARS = 100_000


class _SandboxRequest(BaseModel):
    """The template is sent later, in frames. Only the server chooses modules to preload."""

    model_config = ConfigDict(extra="forbid", strict=True)

    limits: dict[str, int | float] = {}
    image: str | None = None
    workdir: str = "/work"
    environment: dict[str, str] = {}


def parse_spec(content: Mapping[str, Any], most: SandboxLimits, *, images: bool) -> SandboxSpec:
    """Return the spec that a request to open a sandbox describes.

    Args:
        content: The request.
        most: The maximum limits.
        images: Whether clients may choose an image.

    Raises:
        UsageError: The request is invalid; the message is one line.
    """
    try:
        request = _SandboxRequest.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))!r:.100}: {first['msg']}") from None
    most.refuse_above(request.limits)
    _check_places(request, images)
    _check_environment(request.environment)
    return SandboxSpec(
        limits=_limits(request.limits), image=request.image, workdir=request.workdir, environment=request.environment
    )


def _limits(limits: Mapping[str, int | float]) -> SandboxLimits:
    whole = {field.name for field in fields(SandboxLimits) if isinstance(field.default, int)}
    for name, value in limits.items():
        if name in whole and not float(value).is_integer():
            raise UsageError(f"limits.{name}={value!r} must be an integer")
    checked = {name: int(value) if name in whole else value for name, value in limits.items()}
    try:
        return SandboxLimits(**checked)  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise UsageError(f"limits: {error}") from None


def _check_places(request: _SandboxRequest, images: bool) -> None:
    if not _WORKDIR.fullmatch(request.workdir) or request.workdir.split("/")[1] in _SYSTEM:
        raise UsageError(
            f"workdir={request.workdir!r:.100} must be an absolute path such as '/work': plain names, none of them "
            "'..', and not in a system folder"
        )
    if request.image is None:
        return
    if not images:
        raise UsageError("this server does not support images; open a sandbox without one")
    if not _IMAGE.fullmatch(request.image):
        raise UsageError(f"image={request.image!r:.100} is not a valid image name")


def _check_environment(environment: Mapping[str, str]) -> None:
    chars = sum(len(name) + len(value) for name, value in environment.items())
    if len(environment) > _MAX_VARIABLES or chars > _MAX_VARIABLES_CHARS:
        raise UsageError(
            f"environment: at most {_MAX_VARIABLES} variables with {_MAX_VARIABLES_CHARS} characters, "
            f"not {len(environment)} with {chars}"
        )
    answers.variables(environment)
    for name, value in environment.items():
        if any("\ud800" <= character <= "\udfff" for character in name + value):
            raise UsageError(
                f"environment: {name!r:.100} or its value contains a lone surrogate, which is not a valid character"
            )


T = TypeVar("T")
_log = logging.getLogger(__name__)
_MAX_SPEC_BYTES = 1 << 20
_MAX_WAITING = 256
_STOP_S = 1.0
"""Seconds for sandboxes to close when the server stops."""
GENEROUS = SandboxLimits(
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
"""More than any bundled task needs, and too little to monopolise a machine."""


def caps_from(limits: Mapping[str, Any]) -> SandboxLimits:
    """Return the maximum limits for clients; `UsageError` for an unknown limit or a value that is not a number."""
    checked = limits_from(SandboxLimits, limits)
    for name, value in checked.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"sandbox limit {name} must be a number, not {value!r}")
    return GENEROUS.but(**checked)


@dataclass(frozen=True)
class Serving:
    """Configuration of a sandbox server."""

    token: str
    sandboxes: int = 64
    per_client: int | None = None
    """Open sandboxes per client address; by default as many as `sandboxes`."""
    workdirs: int = 8
    """Different workdirs in use at a time: each needs a separate zygote."""
    silent_s: float = 60.0
    """Seconds after its client's last request until a sandbox is closed."""
    frame_bytes: int = 256 << 20
    memory_mb: int = 1536
    """Memory for requests in progress (a third) and their answers (the rest); requests beyond it wait."""
    patience_s: float = 60.0
    """Seconds that a request may wait for that memory."""
    limits: SandboxLimits = GENEROUS
    """The maximum limits that a client may request, for a sandbox and for each run."""

    def __post_init__(self) -> None:
        if len(self.token) < 16:
            raise UsageError("a server's token must have at least 16 characters")
        if self.frame_bytes > self.frames_bytes:
            object.__setattr__(self, "frame_bytes", self.frames_bytes)

    @property
    def frames_bytes(self) -> int:
        """Total size of all requests in progress."""
        return (self.memory_mb << 20) // 3

    @property
    def answers_bytes(self) -> int:
        """Maximum total size of all answers in progress."""
        return (self.memory_mb << 20) - self.frames_bytes


@dataclass(frozen=True)
class SandboxOffer:
    """The sandboxes that a server offers, and how to create one."""

    tier: SandboxTier
    notes: str
    protections: Mapping[Threat, Protection]
    make: Callable[[SandboxSpec], LeasedSandbox]
    images: bool = True
    """Whether clients may choose an image."""


def make_app(offer: SandboxOffer, serving: Serving) -> Starlette:
    """Return the web application. Every path requires the token."""
    served = _SandboxService(offer, serving)
    return Starlette(
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


class _SandboxService:
    """The request handlers. Blocking work runs in a thread pool with room for every sandbox."""

    def __init__(self, offer: SandboxOffer, serving: Serving) -> None:
        self._offer = offer
        self._serving = serving
        self._leases = Leases(
            at_most=serving.sandboxes,
            silent_s=serving.silent_s,
            per_client=serving.per_client,
            kinds=serving.workdirs,
        )
        self._threads = asyncio.Semaphore(2 * serving.sandboxes + 4)
        # Answer memory is acquired last, so the two kinds of memory cannot deadlock.
        self._frames = Turns(serving.frames_bytes, _MAX_WAITING, serving.patience_s)
        self._answers = Turns(serving.answers_bytes, _MAX_WAITING, serving.patience_s)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Close the sandboxes of silent clients periodically, and all sandboxes at shutdown."""
        sweeping = asyncio.create_task(_sweep(self._leases))
        try:
            yield
        finally:
            sweeping.cancel()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(blocking.run(self._leases.close_all), _STOP_S)

    async def about(self, _: Request) -> Response:
        """Describe what is served."""
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
        """Renew the leases of a client's sandboxes."""
        names = (await read_object(request, _MAX_SPEC_BYTES)).get("ids")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise HTTPException(422, '"ids" must be a list of strings')
        return answer({"gone": self._leases.renew(names)})

    async def open(self, request: Request) -> Response:
        """Create a sandbox."""
        content = await read_object(request, _MAX_SPEC_BYTES)
        try:
            spec = parse_spec(content, self._serving.limits, images=self._offer.images)
            name, held = await self._in_thread(
                lambda: self._leases.open(lambda: self._offer.make(spec), client=_address(request), kind=spec.workdir)
            )
        except UsageError as error:
            raise HTTPException(400, str(error)) from None
        except TooManyForClient as error:
            raise HTTPException(429, str(error)) from None
        except InfrastructureError as error:
            raise HTTPException(503, str(error)) from None
        if await request.is_disconnected():
            await self._in_thread(self._leases.close, name)
        return answer({"id": name, "workdir": held.workdir, "notes": held.notes}, 201)

    async def exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a frame to a sandbox and return the answer. Both keep their memory until the answer has been read."""
        request = Request(scope, receive)
        name = request.path_params["name"]
        if not self._leases.has(name):
            raise _no_such_sandbox()
        async with self._frames.turn(length_of(request)):
            frame = await read_body(request, self._serving.frame_bytes)
            most = await self._in_thread(self._max_answer_bytes, frame)
            async with self._answers.turn(most):
                content = await self._exchange(name, frame, most)
                await in_pieces(content, "application/octet-stream")(scope, receive, send)

    async def _exchange(self, name: str, frame: bytes, most: int) -> bytes:
        try:
            return await self._in_thread(self._leases.exchange, name, frame, most)
        except NoSuchLease:
            raise _no_such_sandbox() from None
        except LeaseBusy as error:
            raise HTTPException(429, str(error)) from None
        except (InfrastructureError, OSError, EOFError) as error:
            await self._in_thread(self._leases.close, name)
            raise HTTPException(410, f"the sandbox is gone: {error}") from None

    async def close(self, request: Request) -> Response:
        """Close a sandbox."""
        await self._in_thread(self._leases.close, request.path_params["name"])
        return Response(status_code=204)

    def _max_answer_bytes(self, frame: bytes) -> int:
        """Return the maximum size of the answer to a frame; reject limits above the server's."""
        try:
            header = wire.header_of(frame)
        except wire.BadFrame:
            return 0  # The sandbox itself answers an invalid request with an error.
        limits = header.get("limits")
        try:
            self._serving.limits.refuse_above(limits if isinstance(limits, dict) else {})
        except UsageError as error:
            raise HTTPException(400, str(error)) from None
        return min(max_answer_bytes(header), self._serving.answers_bytes)

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        async with self._threads:
            return await blocking.run(partial(work, *arguments))


async def _sweep(leases: Leases) -> None:
    while True:
        await asyncio.sleep(min(5.0, leases.silent_s / 4))
        closed = await blocking.run(leases.close_silent)
        if closed:
            _log.info("closed %d sandboxes of silent clients", closed)


class _Application:
    """Wraps a method as an ASGI application; Starlette would take a bare method for a request handler."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _no_such_sandbox() -> HTTPException:
    return HTTPException(404, "this sandbox does not exist, or no longer exists")
