"""The output of a program in a container is read completely, even if Docker reports its end first."""

from __future__ import annotations

import socket
import struct
from types import SimpleNamespace
from typing import Any

from agentgym.tools.sandbox.containers.calls import Call, Exchange

ENDED: Any = SimpleNamespace(api=SimpleNamespace(exec_inspect=lambda exec_id: {"Running": False, "ExitCode": 0}))
"""A daemon that reports every program as ended."""
CALL = Call(["true"], user="", cwd="", wall_s=60.0)


def test_output_after_the_end_of_the_program_is_read():
    ours, dockers = socket.socketpair()
    with ours, dockers:
        exchange = Exchange(ENDED, "exec", ours, CALL).run()
        assert exchange.outputs[0].bytes() == b""
        dockers.sendall(struct.pack(">BxxxL", 1, 4) + b"late")
        dockers.close()
        exchange.catch_up()
        assert exchange.outputs[0].bytes() == b"late"
