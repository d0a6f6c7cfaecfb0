"""Serves a gateway from a thread of this process, as training does."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentgym.errors import InfrastructureError, require

if TYPE_CHECKING:
    import uvicorn

    from agentgym.interop.gateway.gateway import Gateway

_START_S = 30.0


@contextmanager
def served(gateway: Gateway, port: int) -> Iterator[str]:
    """Serve a gateway on the loopback address; gives the URL."""
    require("starlette", "serve")
    require("uvicorn", "serve")
    import uvicorn

    from agentgym.interop.gateway.app import make_app

    listening = socket.create_server(("127.0.0.1", port), backlog=1024)
    server = uvicorn.Server(uvicorn.Config(make_app(gateway), log_level="error", ws="none", lifespan="off"))
    thread = threading.Thread(target=_run, args=(gateway, server, listening), name="agentgym-gateway", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_START_S)
        listening.close()
        if thread.is_alive():
            raise InfrastructureError(f"the gateway has not ended within {_START_S:g} s")


def _run(gateway: Gateway, server: uvicorn.Server, listening: socket.socket) -> None:
    async def serve() -> None:
        gateway.loop = asyncio.get_running_loop()
        try:
            await server.serve(sockets=[listening])
        finally:
            gateway.loop = None

    asyncio.run(serve())
