"""Serves a gateway from a thread of this process, as training does."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentgym.errors import InfrastructureError, require
from agentgym.interop.gateway.gateway import Gateway

if TYPE_CHECKING:
    import uvicorn

_END_S = 30.0
"""Seconds for calls in progress to end."""


@contextmanager
def serving(gateway: Gateway, port: int = 0) -> Iterator[str]:
    """Serve a gateway on the loopback address; gives the URL. The gateway is closed afterwards.

    Args:
        gateway: The gateway.
        port: 0 picks a free port.
    """
    require("starlette", "serve")
    require("uvicorn", "serve")
    import uvicorn

    from agentgym.interop.gateway.app import make_app

    listening = socket.create_server(("127.0.0.1", port), backlog=1024)
    server = uvicorn.Server(uvicorn.Config(make_app(gateway), log_level="error", ws="none", lifespan="off"))
    thread = threading.Thread(target=_run, args=(gateway, server, listening), name="agentgym-gateway", daemon=True)
    thread.start()
    gateway.base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield gateway.base_url
    finally:
        try:
            gateway.close()
        finally:
            gateway.base_url = ""
            server.should_exit = True
            thread.join(_END_S)
            listening.close()
        if thread.is_alive():
            raise InfrastructureError(f"the gateway has not ended within {_END_S:g} s")


def _run(gateway: Gateway, server: uvicorn.Server, listening: socket.socket) -> None:
    async def serve() -> None:
        gateway.loop = asyncio.get_running_loop()
        try:
            await server.serve(sockets=[listening])
        finally:
            gateway.loop = None

    asyncio.run(serve())
