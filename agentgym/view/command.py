"""`agentgym view`: look at trajectories in a browser, in one HTML file, or in the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from agentgym.counts import count_of
from agentgym.errors import UsageError, require
from agentgym.loading import load_named
from agentgym.rooms import SERVE_LOCALLY
from agentgym.view.collection import Collection


@dataclass(frozen=True)
class ViewRequest:
    """What to look at, and how."""

    places: list[Path]
    out: Path | None = None
    """Write a report here instead of serving."""
    term: bool = False
    port: int = 0
    max_mb: float = 50.0
    trust: bool = False


def run_view(wanted: ViewRequest) -> None:
    """Do what the command says. Raises `UsageError`, and `MissingExtra` if a server is wanted without the extra."""
    if wanted.out is not None and wanted.term:
        raise UsageError("--out writes a file and --term shows a terminal; choose one of them")
    if wanted.out is not None:
        _report(wanted, wanted.out)
    elif wanted.term:
        from agentgym.view.terminal import browse

        browse(Collection(wanted.places), trust=wanted.trust)
    else:
        _serve(wanted)


def _report(wanted: ViewRequest, out: Path) -> None:
    from agentgym.view.report import write_report

    made = write_report(Collection(wanted.places), out, max_mb=wanted.max_mb, trust=wanted.trust)
    typer.echo(f"Wrote {out}: {made.trajectories} trajectories, {made.size / 1e6:.1f} MB")
    if made.whole < made.trajectories:
        typer.echo(
            f"The contents of {made.trajectories - made.whole} trajectories are left out; --max-mb allows more, and "
            "agentgym view without --out shows all"
        )


def _serve(wanted: ViewRequest) -> None:
    require("starlette", "serve")
    require("uvicorn", "serve")
    from agentgym.view.app import make_app

    collection = Collection(wanted.places)
    app = make_app(collection, trust=wanted.trust)
    typer.echo(count_of(len(collection.rows), "trajectory", "trajectories"))
    # The last line reports the address and that the server is ready.
    load_named(SERVE_LOCALLY, "a function")(app, wanted.port, lambda url: typer.echo(f"Listening on {url}"))
