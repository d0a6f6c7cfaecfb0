"""Serves an application to the people of this machine alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from agentgym.commands.signals import end_process
from agentgym.tools.listening import listen, run_server, url_of
from agentgym.tools.serving.limits import ConnectionLimits

if TYPE_CHECKING:
    from starlette.applications import Starlette


def serve_locally(
    app: Starlette, port: int, announce: Callable[[str], object], *, body_bytes: int = 1 << 20
) -> NoReturn:
    """Serve on the loopback address until SIGINT or SIGTERM, then end the process.

    Args:
        app: The application.
        port: 0 picks a free port.
        announce: Called with the URL once connections are accepted.
        body_bytes: Maximum size of a request's body.

    Raises:
        UsageError: The port is taken.
    """
    listening = listen("127.0.0.1", port)
    announce(url_of(listening))
    run_server(app, listening, ConnectionLimits(body_bytes=body_bytes))
    end_process()
