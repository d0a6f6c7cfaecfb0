"""Live sessions: a Python interpreter or a bash that keeps its state from one cell to the next."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from agentgym.tools.sandbox.agent import cells, child, follow, runs, wire
from agentgym.tools.sandbox.agent.beneath import FileError

_MAX_SESSIONS = 8
_ANSWER_S = 1.0
_MAX_ANSWER_BYTES = 4096

_BASH_LOOP = r"""
__agentgym_last() { return "$1"; }
__agentgym_status=0
while IFS= read -r -d '' -u 4 __agentgym_command; do
  __agentgym_last "$__agentgym_status"
  eval "$__agentgym_command" 4<&-
  __agentgym_status=$?
  printf '%s\0' "$__agentgym_status" >&4
done
"""


class Session:
    """One live session: its process, its streams and the connection on which it is given cells."""

    def __init__(self, place: runs.Place, kind: str, request: dict[str, Any]):
        self.kind = kind
        self._place = place
        self._limits: dict[str, Any] = request["limits"]
        self._commands, theirs = socket.socketpair()
        read_ends, write_ends = runs.pipes(3)
        null = os.open(os.devnull, os.O_RDONLY)
        descriptors = {0: null, 1: write_ends[0], 2: write_ends[1], child.REPLY_FD: write_ends[2]}
        environment, folder = request.get("env", {}), place.at(request.get("cwd", "."))
        try:
            self.pid = child.spawn(
                lambda: _body(kind, folder),
                {**descriptors, cells.COMMAND_FD: theirs.fileno()},
                environment,
                folder,
                place.bounds(self._limits, lasting=kind == "python"),
                place.wall,
            )
        except OSError as error:
            runs.close_all(read_ends)
            self._commands.close()
            raise FileError("invalid", f"no session can be started: {error.strerror}; end others first") from None
        finally:
            theirs.close()
            runs.close_all([*write_ends, null])
        self._streams = runs.captures(read_ends, self._limits)
        self._end = follow.pidfd(self.pid)

    def run(self, code: bytes, limits: dict[str, Any]) -> tuple[dict[str, Any], list[bytes], bool]:
        """Run one cell; return the answer and whether the session lives on."""
        began = time.monotonic()
        self._place.kills.watch()
        for stream in self._streams:
            stream.keep(limits["reply_bytes" if stream is self._streams[2] else "output_bytes"])
        broken = "" if self._send(code, limits) else "timeout"
        done = [self._commands.fileno(), self._end]
        broken = broken or follow.follow(
            self.pid, self._streams, done, limits["wall_s"], self._place.control, self._place.watch
        )
        answer = None if broken else self._answer()
        duration = time.monotonic() - began
        if answer is None:
            return self._died(broken, limits, duration)
        for stream in self._streams:
            stream.drain()
        message, cpu_s, peak_kb = {"ended": "exited", "exit_code": answer[0], "signal": None}, answer[1], answer[2]
        return (*runs.report(message, self._streams, duration, cpu_s, peak_kb), True)

    def close(self) -> None:
        """End the session and all that belongs to it."""
        self._place.processes.end_tree(self.pid)
        self._place.processes.wait(self.pid)
        self._release()

    def _died(self, broken: str, limits: dict[str, Any], duration: float) -> tuple[dict[str, Any], list[bytes], bool]:
        if broken:
            self._place.processes.end_tree(self.pid)
        else:
            follow.drain(self._streams)
        waited = self._place.processes.wait(self.pid)
        self._place.processes.end_tree(self.pid)
        for stream in self._streams:
            stream.drain()
        status, cpu_s, peak_kb = waited if waited is not None else (0, 0.0, 0)
        answer = dict(follow.outcome(broken, status, cpu_s, limits, self._place.kills))
        report = runs.report(answer, self._streams, duration, cpu_s, peak_kb)
        self._release()
        return (*report, False)

    def _release(self) -> None:
        for stream in self._streams:
            stream.close()
        self._commands.close()
        if self._end is not None:
            os.close(self._end)
            self._end = None

    def _send(self, code: bytes, limits: dict[str, Any]) -> bool:
        if self.kind == "python":
            data = wire.encode({"cpu_s": limits["cpu_s"]}, [code])
        elif b"\0" in code:
            raise FileError("invalid", "a NUL character cannot be given to bash")
        else:
            data = code + b"\0"
        self._commands.settimeout(limits["wall_s"])
        try:
            self._commands.sendall(data)
        except socket.timeout:  # noqa: UP041 (not the same class before Python 3.10)
            return False
        except OSError:
            pass
        return True

    def _answer(self) -> tuple[int, float, int] | None:
        """Return exit code, processor time and peak memory as the session tells them; `None` if it tells nothing."""
        self._commands.settimeout(_ANSWER_S)
        try:
            data = self._commands.recv(_MAX_ANSWER_BYTES)
            if self.kind == "bash":
                return (int(data.rstrip(b"\0")[:4]) & 0xFF, 0.0, 0) if data else None
            reading = wire.decoder(0)
            size = next(reading)
            size = reading.send(data[:size])
            reading.send(data[wire.LENGTH.size : wire.LENGTH.size + size])
        except StopIteration as done:
            return _plausible(done.value[0])
        except Exception:  # whatever runs in there may write what it likes
            return None
        return None


def _plausible(answer: dict[str, Any]) -> tuple[int, float, int] | None:
    """Return what a session tells about a cell, if it can be true: runs may write here what they like."""
    exit_code, cpu_s, peak_kb = answer.get("exit_code"), answer.get("cpu_s"), answer.get("peak_kb")
    if type(exit_code) is not int or type(cpu_s) is not float or type(peak_kb) is not int:
        return None
    if not (0 <= exit_code <= 255 and 0 <= cpu_s < 1e9 and 0 <= peak_kb < 1 << 40):
        return None
    return exit_code, cpu_s, peak_kb


def _body(kind: str, folder: str) -> int:
    if kind == "python":
        return cells.serve(folder)
    return child.execute(["bash", "--noprofile", "--norc", "-c", _BASH_LOOP])


class Sessions:
    """The live sessions of a sandbox, by number."""

    def __init__(self, place: runs.Place):
        self._place = place
        self._live: dict[int, Session] = {}
        self._number = 0

    @property
    def leaders(self) -> set[int]:
        """Process ids of the live sessions."""
        return {session.pid for session in self._live.values()}

    def open(self, request: dict[str, Any]) -> int:
        """Start a session and return its number."""
        if request["kind"] not in ("python", "bash"):
            raise FileError("invalid", f"unknown kind of session {request['kind']!r}")
        if len(self._live) >= _MAX_SESSIONS:
            raise FileError("invalid", f"{_MAX_SESSIONS} sessions are open; close one first")
        self._number += 1
        self._live[self._number] = Session(self._place, request["kind"], request)
        return self._number

    def run(self, number: int, code: bytes, limits: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Run a cell; processes that belong to no session are ended after it."""
        session = self._live.get(number)
        if session is None:
            raise FileError("session_lost", f"there is no session {number}")
        answer, blobs, alive = session.run(code, limits)
        if not alive:
            del self._live[number]
        self._place.processes.end_others(self.leaders)
        answer["alive"] = alive
        return answer, blobs

    def shut(self, number: int) -> None:
        """End a session; one that has ended already is fine."""
        session = self._live.pop(number, None)
        if session is not None:
            session.close()
            self._place.processes.end_others(self.leaders)

    def shut_all(self) -> None:
        """End every session."""
        for number in list(self._live):
            self.shut(number)
