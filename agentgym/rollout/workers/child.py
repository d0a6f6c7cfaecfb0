"""The main program of a worker process: hosts environments for the process that started it.

    python -m agentgym.rollout.workers.child DESCRIPTOR

It ends when the other end of the socket is closed, so it cannot outlive its rollout.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from agentgym.base.errors import UsageError
from agentgym.core.env import Env
from agentgym.core.foreign import describe, end_others, run_to_end
from agentgym.rollout.workers.host import EnvHost, HostReply, HostRequest, portable
from agentgym.rollout.workers.wire import Outbox, framed, packed, received

LAST_S = 5.0
"""Seconds for closing the environments once the rollout is gone."""


async def _serve(descriptor: int) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    try:
        host = EnvHost(await _factory(reader))
    except EOFError:  # no longer needed
        return
    except Exception as error:
        writer.write(packed(HostReply(0, error=portable(error))))
        with suppress(ConnectionError):
            await writer.drain()
        return
    writer.write(packed(HostReply(0)))
    outbox = Outbox(writer)
    answering: set[asyncio.Task[None]] = set()

    async def answer(request: HostRequest) -> None:
        outbox.put(framed(await host.pickled(request)))
        with suppress(ConnectionError):
            await writer.drain()

    with suppress(EOFError):
        while True:
            request = await received(reader)
            if request.verb == "close":
                await answer(request)
                break
            task = asyncio.create_task(answer(request))
            answering.add(task)
            task.add_done_callback(answering.discard)
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(LAST_S):
            await host.answer(HostRequest(0, 0, "close"))
            await asyncio.sleep(0)
            await writer.drain()


async def _factory(reader: asyncio.StreamReader) -> Callable[[], Env]:
    try:
        return await received(reader)
    except (AttributeError, ImportError) as error:
        raise UsageError(
            f"a worker process cannot import the environment ({describe(error)}); define it in a module that can be "
            "imported, not in a script or a notebook, or use workers='threads'"
        ) from error


def prepare() -> None:
    """Prepare a process for environments."""
    # The parent process handles Ctrl-C. SIGINT is not set to SIG_IGN, which programs started by an environment would
    # inherit, and so outlive the command.
    signal.signal(signal.SIGINT, lambda *_: None)
    os.dup2(2, 1)  # what environments print must not mix with the output of the rollout


def serve(descriptor: int) -> None:
    """Serve on a socket, and end the process."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    run_to_end(loop, _serve(descriptor))
    run_to_end(loop, end_others())
    os._exit(0)  # stuck threads of environments must not delay the exit


def main() -> None:
    """Serve on the socket whose descriptor is the first argument."""
    prepare()
    serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
