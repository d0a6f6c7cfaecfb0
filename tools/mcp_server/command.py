"""`agentgym serve env ENV --mcp`: checks the options and serves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import typer

from agentgym.base.errors import UsageError, require
from agentgym.base.settings import parse_settings
from agentgym.eval.results.provenance import recorded


@dataclass(frozen=True)
class McpRequest:
    """The arguments of the command."""

    envs: Sequence[str]
    settings: Sequence[str]
    is_stdio: bool
    task: str | None
    split: str | None
    index: int | None
    seed: int
    out: Path | None
    sessions: int
    request_s: float
    idle_s: float


def serve_mcp(request: McpRequest, host: str, port: int, token: str, *, shows_token: bool) -> None:
    """Serve over the standard streams, or over HTTP until a signal."""
    from agentgym.core.making import make_env
    from agentgym.tools.mcp_server.hosting import Choice, Hosting

    if len(request.envs) != 1:
        raise UsageError("--mcp serves one environment: MCP clients cannot choose")
    choice = Choice(request.task, request.split, request.index, request.seed)
    settings, sessions = parse_settings(request.settings), request.sessions
    env = make_env(request.envs[0], {**settings, "dialect": "native"})
    try:
        if request.task is not None:
            env.tasks.find(request.task)
        sessions = min(sessions, env.max_concurrent or sessions)
    finally:
        env.close()
    hosting = Hosting(request.envs[0], settings, choice, request.out, sessions, request.request_s, request.idle_s)
    with nullcontext() if request.out is None else recorded(request.out, seed=request.seed):
        if request.is_stdio:
            from agentgym.tools.mcp_server.server import serve_stdio

            serve_stdio(hosting)
        else:
            _serve_http(hosting, host, port, token, shows_token)


def _serve_http(hosting: object, host: str, port: int, token: str, shows_token: bool) -> None:
    require("fastapi", "serve")
    require("uvicorn", "serve")
    from agentgym.base.signals import end_process
    from agentgym.tools.mcp_server.app import PATH, make_mcp_app
    from agentgym.tools.mcp_server.hosting import Hosting
    from agentgym.tools.serving.running import listen, run_server, url_of

    assert isinstance(hosting, Hosting)
    listening = listen(host, port)
    if shows_token:
        typer.echo(f"Token (shown only now): {token}")
    typer.echo(f"Listening on {url_of(listening)}{PATH}")
    run_server(make_mcp_app(hosting, token), listening, sessions=hosting.sessions)
    end_process()
