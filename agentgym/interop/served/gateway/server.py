"""Serves a gateway: from a thread of this process, as in training, or as the command `agentgym gateway`."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agentgym.base.components import SERVE_LOCALLY, TEMPLATE_DIALECT_NAME, TRAINING_ARGUMENTS
from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.base.loading import load_named
from agentgym.base.settings import parse_settings
from agentgym.core.dialects import TEMPLATE
from agentgym.eval.policy_loader import TINY, has_weights, load_policy, model_of
from agentgym.eval.results.provenance import recorded
from agentgym.interop.served.gateway.gateway import Gateway, GatewaySettings
from agentgym.rollout.limits import Limits

if TYPE_CHECKING:
    import uvicorn

_END_S = 30.0
"""Seconds for calls in progress to end."""

_ANY_BYTES = 1 << 40
"""No limit: the application itself refuses oversized bodies, in the format of chat endpoints."""


@contextmanager
def serving(gateway: Gateway, port: int = 0) -> Iterator[str]:
    """Serve a gateway on the loopback address and provide the URL. The gateway is closed afterwards.

    Args:
        gateway: The gateway.
        port: 0 picks a free port.
    """
    require("fastapi", "serve")
    require("uvicorn", "serve")
    import uvicorn

    from agentgym.interop.served.gateway.app import make_app

    listening = socket.create_server(("127.0.0.1", port), backlog=1024)
    server = uvicorn.Server(uvicorn.Config(make_app(gateway), log_level="error", ws="none", lifespan="off"))
    thread = threading.Thread(target=_run, args=(gateway, server, listening), name="agentgym-gateway", daemon=True)
    thread.start()
    gateway.base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield gateway.base_url
    finally:
        try:
            gateway.close()
        finally:
            gateway.base_url = ""
            server.should_exit = True
            thread.join(_END_S)
            listening.close()
        if thread.is_alive():
            raise InfrastructureError(f"the gateway did not stop within {_END_S:g} s")


def _run(gateway: Gateway, server: uvicorn.Server, listening: socket.socket) -> None:
    async def serve() -> None:
        gateway.loop = asyncio.get_running_loop()
        try:
            await server.serve(sockets=[listening])
        finally:
            gateway.loop = None

    asyncio.run(serve())


@dataclass(frozen=True)
class GatewayArguments:
    """The arguments of the command."""

    policy: str
    env: str | None
    settings: Sequence[str]
    dialect: str | None
    max_calls: int
    max_new_tokens: int
    temperature: float
    context: int | None
    concurrency: int
    seed: int
    port: int
    out: Path | None


def run_gateway(arguments: GatewayArguments, token: str, *, shows_token: bool) -> None:
    """Load the policy and serve on this machine until a signal."""
    require("fastapi", "serve")
    require("uvicorn", "serve")
    from agentgym.interop.served.gateway.app import make_app

    env_kwargs = _env_kwargs(arguments)
    dialect = env_kwargs.pop("dialect", "hermes")
    policy = load_policy(
        arguments.policy,
        env_id=arguments.env or "guess",
        env_kwargs=env_kwargs,
        max_new_tokens=arguments.max_new_tokens,
        **_weights_options(arguments, dialect),
    )
    limits = Limits(max_new_tokens=arguments.max_new_tokens)
    gateway = Gateway(policy, GatewaySettings(dialect, limits, arguments.max_calls, arguments.out, token))
    if shows_token:
        typer.echo(f"Token (shown only now): {token}")
    typer.echo(f"Policy: {policy.name}, dialect {dialect}")
    app = make_app(gateway)

    def announce(url: str) -> None:
        gateway.base_url = url
        typer.echo(f"Listening on {url}/v1")

    serve = load_named(SERVE_LOCALLY, "a function")
    with nullcontext() if arguments.out is None else recorded(arguments.out, seed=arguments.seed):
        serve(app, arguments.port, announce, body_bytes=_ANY_BYTES, at_end=gateway.close)


def _env_kwargs(arguments: GatewayArguments) -> dict[str, Any]:
    """Return the dialect, and the environment's arguments if the policy is scripted or the tiny model."""
    settings = parse_settings(arguments.settings)
    if not has_weights(arguments.policy):
        return {**settings, "dialect": arguments.dialect or "hermes"}
    require("torch", "train")
    model = model_of(arguments.policy)
    if model == TINY and arguments.env is None:
        raise UsageError("the tiny model knows only one environment: name it with --env")
    of_training = load_named(TRAINING_ARGUMENTS, "a function")(model, arguments.env or "guess")
    dialect = arguments.dialect or of_training["dialect"]
    if dialect == TEMPLATE:
        dialect = load_named(TEMPLATE_DIALECT_NAME, "a function")(model)
    return {**(of_training if model == TINY else {}), **settings, "dialect": dialect}


def _weights_options(arguments: GatewayArguments, dialect: str) -> dict[str, Any]:
    """Return the options that only policies with weights take."""
    if not has_weights(arguments.policy):
        return {}
    return {
        "dialect": dialect,
        "temperature": arguments.temperature,
        "seed": arguments.seed,
        "concurrency": arguments.concurrency,
        "context": arguments.context,
    }
