"""The option `--set KEY=VALUE` of commands; `agentgym.settings` parses its values."""

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
