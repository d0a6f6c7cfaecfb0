"""What becomes of requests that are still running when their server stops."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentgym.tools.serving.answers import answer
from agentgym.tools.serving.presence import Presence


def until_stopped(app: ASGIApp, presence: Presence) -> Any:
    """Return an application that answers 503 to a request that the stopping server cancels, if its client is there.

    Without it, uvicorn logs each cancelled request as a failure of the application, and answers 500.
    """

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await app(scope, receive, sending)
        except asyncio.CancelledError:
            if not (started or presence.gone):
                await answer({"detail": "the server is stopping"}, 503)(scope, receive, send)

    return run
