"""The inside of a Python session: a process that runs one cell after the other in one namespace, like a notebook."""

from __future__ import annotations

import ast
import os
import resource
import socket
import sys
from functools import partial
from types import ModuleType
from typing import Any

from agentgym.tools.sandbox.agent import script, wire

COMMAND_FD = 4
"""Cells come in here and a line about each goes out. It is the session's own: it can lie on it only about itself."""


def serve(folder: str) -> int:
    """Run cells until the agent closes the other end; never raises what a cell raises."""
    commands = socket.socket(fileno=COMMAND_FD)
    commands.set_inheritable(False)
    main = script.begin(os.path.join(folder, script.NAME), folder)
    number = 0
    while True:
        cell = _receive(commands)
        if cell is None:
            return script.end(main, 0, folder)
        number += 1
        _allow_cpu(cell[0]["cpu_s"])
        before = resource.getrusage(resource.RUSAGE_SELF)
        path = f"<cell {number}>"
        status = script.guarded(partial(_run, cell[1][0], path, main), path)
        script.flush()
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        answer = {"exit_code": status & 0xFF, "cpu_s": max(0.0, round(cpu, 6)), "peak_kb": after.ru_maxrss}
        commands.sendall(wire.encode(answer))


def _run(code: bytes, path: str, main: ModuleType) -> None:
    """Run one cell; the value of a last expression is shown."""
    script.remember(code, path)
    tree = ast.parse(code, path)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)
    if isinstance(last, ast.Expr):
        expression = ast.Expression(last.value)
        sys.displayhook(eval(compile(expression, path, "eval", dont_inherit=True), main.__dict__))


def _allow_cpu(seconds: float) -> None:
    """Move the soft limit of processor time: a cell has its own, the session as a whole has none."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _receive(commands: socket.socket) -> tuple[dict[str, Any], list[bytes]] | None:
    reading = wire.decoder()
    wanted = next(reading)
    while True:
        data = bytearray()
        while len(data) < wanted:
            chunk = commands.recv(min(wanted - len(data), 1 << 16))
            if not chunk:
                return None
            data += chunk
        try:
            wanted = reading.send(bytes(data))
        except StopIteration as done:
            return done.value
