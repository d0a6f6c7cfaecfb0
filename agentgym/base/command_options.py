"""Options shared by several commands; `agentgym.base.settings` parses the values of `--set`."""

from __future__ import annotations

from typing import Annotated

import typer

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="An argument of the environment, e.g. a task file (see: agentgym tasks sources); may be repeated. "
        "Values are YAML: 3, 5e-4, true, null, [1, 2], {a: 1}, text.",
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free port.")]
TrustFile = Annotated[
    bool,
    typer.Option("--trust-file", help="Accept any class and any argument from the file, as if you had typed it."),
]
