"""`agentgym view`: shows trajectories in a browser, in one HTML file, or in the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from agentgym.base.choices import count_of
from agentgym.base.components import SERVE_LOCALLY
from agentgym.base.errors import UsageError, require
from agentgym.base.loading import load_named
from agentgym.view.collection import Collection


@dataclass(frozen=True)
class ViewRequest:
    """The arguments of `agentgym view`."""

    places: list[Path]
    out: Path | None = None
    """Write a report here instead of serving."""
    term: bool = False
    port: int = 0
    max_mb: float = 50.0
    trust: bool = False


def run_view(request: ViewRequest) -> None:
    """Run the command. Raises `UsageError`, or `MissingExtra` if the server's packages are not installed."""
    if request.out is not None and request.term:
        raise UsageError("--out writes a file and --term shows a terminal; choose one of them")
    if request.out is not None:
        _report(request, request.out)
    elif request.term:
        from agentgym.view.terminal import browse

        browse(Collection(request.places), trust=request.trust)
    else:
        _serve(request)


def _report(request: ViewRequest, out: Path) -> None:
    from agentgym.view.report import write_report

    report = write_report(Collection(request.places), out, max_mb=request.max_mb, trust=request.trust)
    typer.echo(f"Wrote {out}: {report.trajectories} trajectories, {report.size / 1e6:.1f} MB")
    if report.whole < report.trajectories:
        typer.echo(
            f"The contents of {report.trajectories - report.whole} trajectories are left out; --max-mb allows more, "
            "and agentgym view without --out shows all"
        )


def _serve(request: ViewRequest) -> None:
    require("starlette", "serve")
    require("uvicorn", "serve")
    from agentgym.view.server import make_app

    collection = Collection(request.places)
    app = make_app(collection, trust=request.trust)
    typer.echo(count_of(len(collection.rows), "trajectory", "trajectories"))
    # The last line reports the address and that the server is ready.
    load_named(SERVE_LOCALLY, "a function")(app, request.port, lambda url: typer.echo(f"Listening on {url}"))
