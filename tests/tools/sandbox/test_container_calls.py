"""The output of a program in a container is read completely, even if Docker reports its end first."""

from __future__ import annotations

import socket
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym.tools.sandbox.containers.calls import Call, Exchange

ENDED: Any = SimpleNamespace(api=SimpleNamespace(exec_inspect=lambda exec_id: {"Running": False, "ExitCode": 0}))
"""A daemon that reports every program as ended."""
CALL = Call(["true"], user="", cwd="", wall_s=60.0)


def frame(text: bytes) -> bytes:
    return struct.pack(">BxxxL", 1, len(text)) + text


def test_output_after_the_end_of_the_program_is_read():
    ours, dockers = socket.socketpair()
    with ours, dockers:
        exchange = Exchange(ENDED, "exec", ours, CALL).run()
        assert exchange.outputs[0].bytes() == b""
        dockers.sendall(frame(b"late"))
        dockers.close()
        exchange.catch_up()
        assert exchange.outputs[0].bytes() == b"late"


@pytest.mark.real
def test_reading_ends_although_the_output_stays_open():
    ours, dockers = socket.socketpair()
    with ours, dockers:
        dockers.sendall(frame(b"started"))
        exchange = Exchange(ENDED, "exec", ours, CALL).run()
        exchange.catch_up()
        assert exchange.outputs[0].bytes() == b"started"
