"""The process of a Python session: runs one cell after another in one namespace, like a notebook."""

from __future__ import annotations

import ast
import os
import socket
import sys
from functools import partial
from types import ModuleType

from agentgym.tools.sandbox.agent import endings, script, wire

COMMAND_FD = 4
"""Receives cells, each with the secret to report its end; see `endings`."""


def serve(folder: str) -> int:
    """Run cells until the agent closes the connection; exceptions of cells are never propagated."""
    commands = socket.socket(fileno=COMMAND_FD)
    commands.set_inheritable(False)
    main = script.begin(os.path.join(folder, script.NAME), folder)
    number = 0
    while True:
        cell = _receive(commands)
        if cell is None:
            return script.end(main, 0, folder)
        number += 1
        path = f"<cell {number}>"
        status = script.guarded(partial(_run, cell[1][0], path, main), path)
        script.flush()
        endings.say(commands, status & 0xFF)


def _run(code: bytes, path: str, main: ModuleType) -> None:
    """Run one cell, and show the value of its last expression."""
    script.remember(code, path)
    tree = ast.parse(code, path)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)
    if isinstance(last, ast.Expr):
        expression = ast.Expression(last.value)
        sys.displayhook(eval(compile(expression, path, "eval", dont_inherit=True), main.__dict__))


def _receive(commands: socket.socket) -> wire.Frame | None:
    reading = wire.decoder()
    size = next(reading)
    while True:
        data = bytearray()
        while len(data) < size:
            chunk = endings.receive(commands, min(size - len(data), 1 << 16))
            if not chunk:
                return None
            data += chunk
        try:
            size = reading.send(bytes(data))
        except StopIteration as done:
            return done.value
