"""The options of `agentgym serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
