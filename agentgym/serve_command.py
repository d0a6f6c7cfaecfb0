"""`agentgym serve`: offer what this machine has to others over HTTP."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from agentgym.errors import UsageError, require

serve_app = typer.Typer(help="Offer what this machine has to others over HTTP.", no_args_is_help=True)

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@serve_app.callback()
def _serve() -> None:
    """Offer what this machine has to others over HTTP."""


@serve_app.command("sandbox")
def sandbox(
    host: Annotated[str, typer.Option(help="The address to listen on; only this machine can reach the default.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")] = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Where the token is; a new one is written if there is no such file.", dir_okay=False),
    ] = None,
    backend: Annotated[str, typer.Option(help="auto, or the name of a backend; see: agentgym doctor")] = "auto",
    sandboxes: Annotated[int, typer.Option(min=1, help="Sandboxes open at one time.")] = 64,
    per_client: Annotated[
        int | None,
        typer.Option(min=1, help="Sandboxes open at one time for one address; behind a proxy all share one."),
    ] = None,
    memory: Annotated[
        int, typer.Option(min=48, help="MB for requests and answers under way; what is more than that waits.")
    ] = 1536,
    silent: Annotated[
        float, typer.Option(min=1.0, help="Seconds after which the sandboxes of a silent client are closed.")
    ] = 60.0,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="The most a client may ask for, as memory_mb=2048; may be given several times."),
    ] = None,
) -> None:
    """Let those who have the token run programs in sandboxes of this machine. Ends on Ctrl-C and on SIGTERM."""
    require("starlette", "serve")
    require("uvicorn", "serve")
    from agentgym.options import parse_settings
    from agentgym.tools.listening import end_process, listen, run_server, url_of
    from agentgym.tools.sandbox.offering import offer_of
    from agentgym.tools.sandbox.serve import Serving, caps_from, make_app
    from agentgym.tools.serving.patience import Patience

    caps = caps_from(parse_settings(limit or ()))
    token = read_token(token_file)
    offer = offer_of(backend)
    listening = listen(host, port)
    if host not in _LOOPBACK:
        typer.echo("The token and all files pass in the clear: put TLS in front of it, or use a tunnel.", err=True)
    if token_file is None:
        typer.echo(f"Token (shown only now): {token}")
    typer.echo(f"Sandboxes: {offer.notes}")
    # The last line tells whoever started it where it is and that it is ready.
    typer.echo(f"Listening on {url_of(listening)}")
    serving = Serving(
        token=token, sandboxes=sandboxes, per_client=per_client, memory_mb=memory, silent_s=silent, limits=caps
    )
    patience = Patience(body_bytes=serving.frame_bytes, held_bytes=serving.frames_bytes)
    run_server(make_app(offer, serving), listening, patience)
    end_process()


@serve_app.command("index")
def index(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The index, as agentgym.tools.index.build_index made it.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on; only this machine can reach the default.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")] = 0,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer; they share the files.")] = 1,
    k: Annotated[int, typer.Option(min=1, help="Documents for each query that does not say how many.")] = 3,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="Where the token is that requests must carry; a new one is written if there is no such file. "
            "Without it everyone who can reach the address can search.",
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Let others search an index as they would Search-R1's: POST /retrieve. Ends on Ctrl-C and on SIGTERM."""
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
        typer.echo("Queries and documents pass in the clear: put TLS in front of it, or use a tunnel.", err=True)
        if token_file is None:
            typer.echo("Everyone who can reach this address can search: give a --token-file.", err=True)
    typer.echo(f"Index: {len(opened):,} documents, {opened.name}")
    typer.echo(f"Listening on {url_of(listening)}")
    opened.close()
    serve_index(folder, serving, listening, workers)
    end_process()


def read_token(path: Path | None) -> str:
    """Return the token in a file. Without a file, or where there is none yet, make a token (and the file)."""
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
