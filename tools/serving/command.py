"""`agentgym serve`: serve resources of this machine over HTTP."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from agentgym.commands.common_options import Settings
from agentgym.errors import UsageError, require

serve_app = typer.Typer(help="Serve resources of this machine over HTTP.", no_args_is_help=True, add_completion=False)

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@serve_app.callback()
def _serve() -> None:
    """Serve resources of this machine over HTTP."""


@serve_app.command("sandbox")
def sandbox(
    host: Annotated[str, typer.Option(help="The address to listen on; the default is local to this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free port.")] = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(help="The file with the token; created with a new token if missing.", dir_okay=False),
    ] = None,
    backend: Annotated[str, typer.Option(help="auto, or the name of a backend; see: agentgym doctor")] = "auto",
    sandboxes: Annotated[int, typer.Option(min=1, help="Maximum number of open sandboxes.")] = 64,
    per_client: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of open sandboxes per client address; behind a proxy all share one."),
    ] = None,
    memory: Annotated[
        int, typer.Option(min=48, help="MB for requests and responses in flight; further requests wait.")
    ] = 1536,
    silent: Annotated[
        float, typer.Option(min=1.0, help="Seconds of silence after which a client's sandboxes are closed.")
    ] = 60.0,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="An upper bound on a client's request, e.g. memory_mb=2048; may be repeated."),
    ] = None,
) -> None:
    """Let clients with the token run programs in sandboxes on this machine. Stops on Ctrl-C and SIGTERM."""
    require("starlette", "serve")
    require("uvicorn", "serve")
    from agentgym.settings import parse_settings
    from agentgym.tools.listening import end_process, listen, run_server, url_of
    from agentgym.tools.sandbox.offering import offer_of
    from agentgym.tools.sandbox.serve import Serving, caps_from, make_app
    from agentgym.tools.serving.limits import ConnectionLimits

    caps = caps_from(parse_settings(limit or (), "--limit"))
    token = read_token(token_file)
    offer = offer_of(backend)
    listening = listen(host, port)
    if host not in _LOOPBACK:
        typer.echo("The token and all files are sent unencrypted: put a TLS proxy in front, or use a tunnel.", err=True)
    if token_file is None:
        typer.echo(f"Token (shown only now): {token}")
    typer.echo(f"Sandboxes: {offer.notes}")
    # The last line reports the address and that the server is ready.
    typer.echo(f"Listening on {url_of(listening)}")
    serving = Serving(
        token=token, sandboxes=sandboxes, per_client=per_client, memory_mb=memory, silent_s=silent, limits=caps
    )
    limits = ConnectionLimits(body_bytes=serving.frame_bytes, held_bytes=serving.frames_bytes)
    run_server(make_app(offer, serving), listening, limits)
    end_process()


@serve_app.command("env")
def env(
    envs: Annotated[list[str], typer.Argument(metavar="ENV", help="Ids such as 'sql', or module:Class.")],
    settings: Settings = None,
    host: Annotated[str, typer.Option(help="The address to listen on; the default is local to this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free port.")] = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(help="The file with the token; created with a new token if missing.", dir_okay=False),
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Maximum number of open sessions.")] = 512,
    request_s: Annotated[
        float, typer.Option(min=1.0, help="Seconds that a reset or a step may take; a session that takes longer ends.")
    ] = 300.0,
    idle_s: Annotated[
        float, typer.Option(min=1.0, help="Seconds without a request after which a session ends.")
    ] = 600.0,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Let clients see gold and solutions, e.g. for agentgym check.")
    ] = False,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve its tools as an MCP server: a session of a client is an episode.")
    ] = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="With --mcp: by the standard streams, without a token.")
    ] = False,
    task: Annotated[str | None, typer.Option(help="With --mcp: the id of the task that every session plays.")] = None,
    split: Annotated[str | None, typer.Option(help="With --mcp: the split of the tasks.")] = None,
    index: Annotated[
        int | None, typer.Option(min=0, help="With --mcp: the first session's task in the split; by default drawn.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="With --mcp: the first session's seed.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="With --mcp: append finished episodes to this JSONL file.", dir_okay=False)
    ] = None,
) -> None:
    """Let clients with the token play environments here. Stops on Ctrl-C and SIGTERM."""
    if mcp:
        from agentgym.tools.mcp_server.command import McpRequest, serve_mcp

        chosen = McpRequest(envs, settings or (), stdio, task, split, index, seed, out, sessions, request_s, idle_s)
        serve_mcp(chosen, host, port, read_token(token_file), shows_token=token_file is None)
        return
    for module in ("fastapi", "prometheus_client", "uvicorn", "websockets"):
        require(module, "serve")
    from agentgym.commands.options import make_env
    from agentgym.settings import parse_settings
    from agentgym.tools.env_server.offer import EnvServing, Offer
    from agentgym.tools.env_server.server import serve_envs
    from agentgym.tools.listening import end_process, listen, url_of

    offer = Offer(tuple(envs), parse_settings(settings or ()), is_revealed=reveal)
    for name in envs:
        make_env(name, dict(offer.settings)).close()
    token = read_token(token_file)
    serving = EnvServing(token=token, sessions=sessions, request_s=request_s, idle_s=idle_s)
    listening = listen(host, port)
    if host not in _LOOPBACK:
        typer.echo(
            "The token and all episodes are sent unencrypted: put a TLS proxy in front, or use a tunnel.", err=True
        )
    if token_file is None:
        typer.echo(f"Token (shown only now): {token}")
    typer.echo(f"Listening on {url_of(listening)}")
    serve_envs(offer, serving, listening)
    end_process()


@serve_app.command("index")
def index(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of an index that agentgym.tools.index.build_index made.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on; the default is local to this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free port.")] = 0,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Number of worker processes; they share the files.")] = 1,
    k: Annotated[int, typer.Option(min=1, help="Documents per query, unless the query sets a number.")] = 3,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="The file with the token that requests must carry; created with a new token if missing. "
            "Without a token, everyone who can reach the address can search.",
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Serve an index with the interface of Search-R1's retriever: POST /retrieve. Stops on Ctrl-C and SIGTERM."""
    require("starlette", "serve")
    require("uvicorn", "serve")
    from agentgym.tools.index import open_index
    from agentgym.tools.index.asking import IndexServing
    from agentgym.tools.index.workers import serve_index
    from agentgym.tools.listening import end_process, listen, url_of

    serving = IndexServing(k=k, token=read_token(token_file) if token_file else None)
    opened = open_index(folder)
    listening = listen(host, port)
    if host not in _LOOPBACK:
        typer.echo("Queries and documents are sent unencrypted: put a TLS proxy in front, or use a tunnel.", err=True)
        if token_file is None:
            typer.echo("Everyone who can reach this address can search: set --token-file.", err=True)
    typer.echo(f"Index: {len(opened):,} documents, {opened.name}")
    typer.echo(f"Listening on {url_of(listening)}")
    opened.close()
    serve_index(folder, serving, listening, workers)
    end_process()


def read_token(path: Path | None) -> str:
    """Return the token in a file. Create a token if no file is given, and also the file if it does not exist yet."""
    if path is None:
        return secrets.token_urlsafe(32)
    try:
        token = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return _write_token(path)
    except OSError as error:
        raise UsageError(f"cannot read the token in {str(path)!r}: {error.strerror}") from None
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{str(path)!r} must hold a token of at least 16 characters without spaces, and nothing else")
    return token


def _write_token(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(token + "\n")
    except OSError as error:
        raise UsageError(f"cannot write a token to {str(path)!r}: {error.strerror}") from None
    return token
