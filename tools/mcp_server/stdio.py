"""Serves one episode over the standard streams of this process."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

import anyio
from mcp.server.stdio import stdio_server  # pyright: ignore[reportMissingImports]

from agentgym.tools.mcp_server.hosting import Hosting
from agentgym.tools.mcp_server.server import make_server


def serve_stdio(hosting: Hosting) -> None:
    """Serve until the client closes the input. Anything that an environment prints goes to stderr."""
    anyio.run(_serve, hosting)


async def _serve(hosting: Hosting) -> None:
    # The client reads every line of the output as a message, so nothing else may write there.
    out = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with os.fdopen(out, "wb") as raw:
        output = anyio.wrap_file(TextIOWrapper(raw, encoding="utf-8"))
        async with stdio_server(stdout=output) as (incoming, outgoing):
            server = make_server(hosting)
            await server.run(incoming, outgoing, server.create_initialization_options())
