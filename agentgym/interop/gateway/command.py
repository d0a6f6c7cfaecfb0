"""`agentgym gateway`: loads the policy, and serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from agentgym.dialects import TEMPLATE
from agentgym.errors import UsageError, require
from agentgym.interop.gateway.gateway import Gateway, GatewaySettings
from agentgym.loading import load_named
from agentgym.policy_loader import TINY, has_weights, load_policy, model_of
from agentgym.rollout.limits import Limits
from agentgym.rooms import SERVE_LOCALLY, TEMPLATE_DIALECT_NAME, TRAINING_ARGUMENTS
from agentgym.settings import parse_settings

_ANY_BYTES = 1 << 40
"""The application refuses bodies that are too large by itself, in the form of chat endpoints."""


@dataclass(frozen=True)
class GatewayRequest:
    """What to serve: the arguments of the command."""

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


def run_gateway(request: GatewayRequest, token: str, *, shows_token: bool) -> None:
    """Serve on this machine until a signal."""
    require("starlette", "serve")
    require("uvicorn", "serve")
    from agentgym.interop.gateway.app import make_app

    arguments = _arguments(request)
    dialect = arguments.pop("dialect", "hermes")
    policy = load_policy(
        request.policy,
        env_id=request.env or "guess",
        env_kwargs=arguments,
        max_new_tokens=request.max_new_tokens,
        **_options(request, dialect),
    )
    settings = GatewaySettings(
        dialect, Limits(max_new_tokens=request.max_new_tokens), request.max_calls, request.out, token
    )
    gateway = Gateway(policy, settings)
    if shows_token:
        typer.echo(f"Token (shown only now): {token}")
    typer.echo(f"Policy: {policy.name}, dialect {dialect}")
    app = make_app(gateway)

    def announce(url: str) -> None:
        gateway.base_url = url
        typer.echo(f"Listening on {url}/v1")

    load_named(SERVE_LOCALLY, "a function")(app, request.port, announce, body_bytes=_ANY_BYTES, at_end=gateway.close)


def _arguments(request: GatewayRequest) -> dict[str, Any]:
    """Return the arguments of the environment that a tiny model knows, and the dialect of any model."""
    given = parse_settings(request.settings)
    if not has_weights(request.policy):
        return {**given, "dialect": request.dialect or "hermes"}
    require("torch", "train")
    model = model_of(request.policy)
    if model == TINY and request.env is None:
        raise UsageError("the tiny model knows one environment: say which with --env")
    trained = load_named(TRAINING_ARGUMENTS, "a function")(model, request.env or "guess")
    dialect = request.dialect or trained["dialect"]
    if dialect == TEMPLATE:
        dialect = load_named(TEMPLATE_DIALECT_NAME, "a function")(model)
    return {**(trained if model == TINY else {}), **given, "dialect": dialect}


def _options(request: GatewayRequest, dialect: str) -> dict[str, Any]:
    """Return what only policies with weights take."""
    if not has_weights(request.policy):
        return {}
    return {
        "dialect": dialect,
        "temperature": request.temperature,
        "seed": request.seed,
        "concurrency": request.concurrency,
        "context": request.context,
    }
