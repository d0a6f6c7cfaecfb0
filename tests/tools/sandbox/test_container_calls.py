"""What a program in a container printed is read to its end, also when Docker tells of its end first."""

from __future__ import annotations

import socket
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym.tools.sandbox.containers.calls import Call, Exchange

ENDED: Any = SimpleNamespace(api=SimpleNamespace(exec_inspect=lambda exec_id: {"Running": False, "ExitCode": 0}))
"""A daemon for which every program has ended."""
CALL = Call(["true"], user="", cwd="", wall_s=60.0)


def frame(text: bytes) -> bytes:
    return struct.pack(">BxxxL", 1, len(text)) + text


def test_output_that_comes_after_the_end_of_the_program_is_read():
    ours, dockers = socket.socketpair()
    with ours, dockers:
        exchange = Exchange(ENDED, "exec", ours, CALL).run()
        assert exchange.kept[0].bytes() == b""
        dockers.sendall(frame(b"late"))
        dockers.close()
        exchange.catch_up()
        assert exchange.kept[0].bytes() == b"late"


@pytest.mark.real
def test_a_program_left_running_does_not_hold_the_output_open():
    ours, dockers = socket.socketpair()
    with ours, dockers:
        dockers.sendall(frame(b"started"))
        exchange = Exchange(ENDED, "exec", ours, CALL).run()
        exchange.catch_up()
        assert exchange.kept[0].bytes() == b"started"
