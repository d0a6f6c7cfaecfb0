"""`agentgym serve`: serve resources of this machine over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.errors import UsageError, require
from agentgym.terminal.options import Port, Settings
from agentgym.tools.serving import options
from agentgym.tools.serving.token_file import read_token

if TYPE_CHECKING:
    from agentgym.tools.env_server.offer import EnvOffer, EnvServing

serve_app = typer.Typer(help="Serve resources of this machine over HTTP.", no_args_is_help=True, add_completion=False)

_LOOPBACK = (options.LOCAL, "::1", "localhost")


@serve_app.callback()
def _serve() -> None:
    """Serve resources of this machine over HTTP."""


@serve_app.command("sandbox")
def sandbox(
    host: options.Host = options.LOCAL,
    port: Port = 0,
    token_file: options.TokenFile = None,
    backend: options.Backend = "auto",
    sandboxes: options.Sandboxes = 64,
    per_client: options.PerClient = None,
    memory: options.Memory = 1536,
    silent: options.Silence = 60.0,
    limit: options.UpperBounds = None,
) -> None:
    """Let clients with the token run programs in sandboxes on this machine. Stops on Ctrl-C and SIGTERM."""
    require("starlette", "serve")
    require("uvicorn", "serve")
    from agentgym.settings import parse_settings
    from agentgym.terminal.signals import end_process
    from agentgym.tools.sandbox.offering import offer_of
    from agentgym.tools.sandbox.serve import Serving, caps_from, make_app
    from agentgym.tools.serving.running import listen, run_server, url_of

    caps = caps_from(parse_settings(limit or (), "--limit"))
    token = read_token(token_file)
    offer = offer_of(backend)
    listening = listen(host, port)
    _warn_beyond_this_machine(host, "The token and all files")
    if token_file is None:
        typer.echo(f"Token (shown only now): {token}")
    typer.echo(f"Sandboxes: {offer.notes}")
    # The last line reports the address and that the server is ready.
    typer.echo(f"Listening on {url_of(listening)}")
    serving = Serving(
        token=token, sandboxes=sandboxes, per_client=per_client, memory_mb=memory, silent_s=silent, limits=caps
    )
    limits = {"body_bytes": serving.frame_bytes, "held_bytes": serving.frames_bytes}
    run_server(make_app(offer, serving), listening, **limits)
    end_process()


@serve_app.command("env")
def env(
    envs: Annotated[list[str], typer.Argument(metavar="ENV", help="Ids such as 'sql', or module:Class.")],
    settings: Settings = None,
    host: options.Host = options.LOCAL,
    port: Port = 0,
    token_file: options.TokenFile = None,
    sessions: options.Sessions = 512,
    request_s: options.RequestSeconds = 300.0,
    idle_s: options.IdleSeconds = 600.0,
    reveal: options.Reveal = False,
    mcp: options.Mcp = False,
    stdio: options.McpStdio = False,
    task: options.McpTask = None,
    split: options.McpSplit = None,
    index: options.McpIndex = None,
    seed: options.McpSeed = 0,
    out: options.McpOut = None,
) -> None:
    """Let clients with the token play environments here. Stops on Ctrl-C and SIGTERM."""
    if mcp:
        from agentgym.tools.mcp_server.command import McpRequest, serve_mcp

        request = McpRequest(envs, settings or (), stdio, task, split, index, seed, out, sessions, request_s, idle_s)
        serve_mcp(request, host, port, read_token(token_file), shows_token=token_file is None)
        return
    mcp_only = {"stdio": stdio or None, "task": task, "split": split, "index": index, "seed": seed or None, "out": out}
    if wrong := [name for name, value in mcp_only.items() if value is not None]:
        raise UsageError(f"--{wrong[0]} works only with --mcp")
    for module in ("fastapi", "prometheus_client", "uvicorn", "websockets"):
        require(module, "serve")
    from agentgym.making import make_env
    from agentgym.settings import parse_settings
    from agentgym.tools.env_server.offer import EnvOffer, EnvServing

    offer = EnvOffer(tuple(envs), parse_settings(settings or ()), is_revealed=reveal)
    for name in envs:
        make_env(name, dict(offer.settings)).close()
    serving = EnvServing(token=read_token(token_file), sessions=sessions, request_s=request_s, idle_s=idle_s)
    _serve_envs(offer, serving, host, port, shows_token=token_file is None)


def _serve_envs(offer: EnvOffer, serving: EnvServing, host: str, port: int, *, shows_token: bool) -> None:
    from agentgym.terminal.signals import end_process
    from agentgym.tools.env_server.app import serve_envs
    from agentgym.tools.serving.running import listen, url_of

    listening = listen(host, port)
    _warn_beyond_this_machine(host, "The token and all episodes")
    if shows_token:
        typer.echo(f"Token (shown only now): {serving.token}")
    typer.echo(f"Listening on {url_of(listening)}")
    serve_envs(offer, serving, listening)
    end_process()


@serve_app.command("index")
def index(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of an index (agentgym index build).")],
    host: options.Host = options.LOCAL,
    port: Port = 0,
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
    from agentgym.terminal.signals import end_process
    from agentgym.tools.index import open_index
    from agentgym.tools.index.asking import IndexServing
    from agentgym.tools.index.workers import serve_index
    from agentgym.tools.serving.running import listen, url_of

    serving = IndexServing(k=k, token=read_token(token_file) if token_file else None)
    opened = open_index(folder)
    listening = listen(host, port)
    if _warn_beyond_this_machine(host, "Queries and documents") and token_file is None:
        typer.echo("Everyone who can reach this address can search: set --token-file.", err=True)
    typer.echo(f"Index: {len(opened):,} documents, {opened.name}")
    typer.echo(f"Listening on {url_of(listening)}")
    opened.close()
    serve_index(folder, serving, listening, workers)
    end_process()


def _warn_beyond_this_machine(host: str, sent: str) -> bool:
    """Warn if other machines can reach an address, and return whether they can. `sent` names what they could read."""
    if host in _LOOPBACK:
        return False
    typer.echo(f"{sent} are sent unencrypted: put a TLS proxy in front, or use a tunnel.", err=True)
    return True
