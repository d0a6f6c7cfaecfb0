"""`agentgym tasks build swe`: make bug-fixing tasks of packages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym.base.errors import UsageError


def build(
    sources: Annotated[
        list[Path],
        typer.Option("--from", exists=True, help="A Python package with tests: a folder or sdist; may be repeated."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write instances and repositories to.", file_okay=False)],
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of validated tasks in total.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Number of concurrent test runs.")] = 1,
    hide_tests: Annotated[bool, typer.Option(help="Hide the tests that find the bug from the policy.")] = True,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the packages' tests without a sandbox, as when you install them.")
    ] = False,
) -> None:
    """Make validated bug-fixing tasks of real packages by injecting bugs that their tests find."""
    from rich.console import Console

    from agentgym.base.output_files import check_folder, held, refuse_to_replace
    from agentgym.envs.swe.building.command import BuildRequest, run_build
    from agentgym.tools.text_files import count_of

    check_folder(out)
    refuse_to_replace(out / "instances.jsonl", "a file of instances", _holds_instances)
    request = BuildRequest(sources, out, count=limit, seed=seed, workers=workers, hide_tests=hide_tests, trusted=trust)
    with held(out), Console(stderr=True).status("Building …") as status:
        reports = run_build(request, on_progress=lambda line: status.update(f"Building … {line}"))
    for report in reports:
        if report.error:
            typer.echo(report.error, err=True)
    task_count = sum(len(report.instances) for report in reports)
    typer.echo(f"Wrote {count_of(task_count, 'validated task')} of {count_of(len(reports), 'package')} to {out}")
    if not task_count:
        raise typer.Exit(1)
    typer.echo(f"Play them with: --env swe --set file={out / 'instances.jsonl'}")


def _holds_instances(path: Path) -> bool:
    from agentgym.tasks.swe.instance import read_instances

    try:
        return bool(read_instances(path))
    except (UsageError, UnicodeDecodeError):
        return False
