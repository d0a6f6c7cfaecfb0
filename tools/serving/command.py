"""`agentgym serve`: serve resources of this machine over HTTP."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.base.command_options import Port, Settings
from agentgym.base.errors import UsageError, require

if TYPE_CHECKING:
    from agentgym.tools.env_server.offer import EnvOffer, EnvServing


LOCAL = "127.0.0.1"

Host = Annotated[str, typer.Option(help="The address to listen on; the default is local to this machine.")]
TokenFile = Annotated[
    Path | None, typer.Option(help="The file with the token; created with a new token if missing.", dir_okay=False)
]

# Of sandboxes.
Backend = Annotated[str, typer.Option(help="auto, or the name of a backend; see: agentgym doctor")]
Sandboxes = Annotated[int, typer.Option(min=1, help="Maximum number of open sandboxes.")]
PerClient = Annotated[
    int | None,
    typer.Option(min=1, help="Maximum number of open sandboxes per client address; behind a proxy all share one."),
]
Memory = Annotated[int, typer.Option(min=48, help="MB for requests and responses in flight; further requests wait.")]
Silence = Annotated[
    float, typer.Option(min=1.0, help="Seconds of silence after which a client's sandboxes are closed.")
]
UpperBounds = Annotated[
    list[str] | None,
    typer.Option(help="An upper bound on a client's request, e.g. memory_mb=2048; may be repeated."),
]

# Of environments.
Sessions = Annotated[int, typer.Option(min=1, help="Maximum number of open sessions.")]
RequestSeconds = Annotated[
    float, typer.Option(min=1.0, help="Seconds that a reset or a step may take; a session that takes longer ends.")
]
IdleSeconds = Annotated[float, typer.Option(min=1.0, help="Seconds without a request after which a session ends.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Let clients see gold and solutions, e.g. for agentgym check.")]
Mcp = Annotated[bool, typer.Option("--mcp", help="Serve its tools over MCP: each client session is an episode.")]
McpStdio = Annotated[bool, typer.Option("--stdio", help="With --mcp: over standard input and output, without a token.")]
McpTask = Annotated[str | None, typer.Option(help="With --mcp: the id of the task that every session plays.")]
McpSplit = Annotated[str | None, typer.Option(help="With --mcp: the split of the tasks.")]
McpIndex = Annotated[
    int | None,
    typer.Option(min=0, help="With --mcp: index of the first session's task; by default the seed selects it."),
]
McpSeed = Annotated[int, typer.Option(min=0, help="With --mcp: the first session's seed.")]
McpOut = Annotated[
    Path | None, typer.Option(help="With --mcp: append finished episodes to this JSONL file.", dir_okay=False)
]


def read_token(path: Path | None) -> str:
    """Return the token in a file. Without a path, return a new token; if the file is missing, create it."""
    if path is None:
        return secrets.token_urlsafe(32)
    try:
        token = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return _write_token(path)
    except OSError as error:
        raise UsageError(f"cannot read the token in {str(path)!r}: {error.strerror}") from None
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{str(path)!r} must hold only a token of at least 16 characters without spaces")
    return token


def _write_token(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(token + "\n")
    except OSError as error:
        raise UsageError(f"cannot write a token to {str(path)!r}: {error.strerror}") from None
    return token


serve_app = typer.Typer(help="Serve resources of this machine over HTTP.", no_args_is_help=True, add_completion=False)

_LOOPBACK = (LOCAL, "::1", "localhost")


@serve_app.callback()
def _serve() -> None:
    """Serve resources of this machine over HTTP."""


@serve_app.command("sandbox")
def sandbox(
    host: Host = LOCAL,
    port: Port = 0,
    token_file: TokenFile = None,
    backend: Backend = "auto",
    sandboxes: Sandboxes = 64,
    per_client: PerClient = None,
    memory: Memory = 1536,
    silent: Silence = 60.0,
    cap: UpperBounds = None,
) -> None:
    """Let clients with the token run programs in sandboxes on this machine. Stops on Ctrl-C and SIGTERM."""
    require("starlette", "serve")
    require("uvicorn", "serve")
    from agentgym.base.settings import parse_settings
    from agentgym.base.signals import end_process
    from agentgym.tools.sandbox.offering import offer_of
    from agentgym.tools.sandbox.serve import Serving, caps_from, make_app
    from agentgym.tools.serving.running import listen, run_server, url_of

    caps = caps_from(parse_settings(cap or (), "--cap"))
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
    host: Host = LOCAL,
    port: Port = 0,
    token_file: TokenFile = None,
    sessions: Sessions = 512,
    request_s: RequestSeconds = 300.0,
    idle_s: IdleSeconds = 600.0,
    reveal: Reveal = False,
    mcp: Mcp = False,
    stdio: McpStdio = False,
    task: McpTask = None,
    split: McpSplit = None,
    index: McpIndex = None,
    seed: McpSeed = 0,
    out: McpOut = None,
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
    from agentgym.base.settings import parse_settings
    from agentgym.core.making import make_env
    from agentgym.tools.env_server.offer import EnvOffer, EnvServing

    offer = EnvOffer(tuple(envs), parse_settings(settings or ()), is_revealed=reveal)
    for name in envs:
        make_env(name, dict(offer.settings)).close()
    serving = EnvServing(token=read_token(token_file), sessions=sessions, request_s=request_s, idle_s=idle_s)
    _serve_envs(offer, serving, host, port, shows_token=token_file is None)


def _serve_envs(offer: EnvOffer, serving: EnvServing, host: str, port: int, *, shows_token: bool) -> None:
    from agentgym.base.signals import end_process
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
    host: Host = LOCAL,
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
    from agentgym.base.signals import end_process
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
