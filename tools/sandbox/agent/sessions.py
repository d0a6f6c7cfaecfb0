"""Live sessions: a Python interpreter or a bash that keeps its state from one cell to the next."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from agentgym.tools.sandbox.agent import cells, child, follow, processes, runs, wire
from agentgym.tools.sandbox.agent.beneath import FileError
from agentgym.tools.sandbox.agent.endings import CellEnd
from agentgym.tools.sandbox.agent.watch import UsageMonitor

_MAX_SESSIONS = 8
_MOST_DISTURBANCES = 5

_BASH_LOOP = r"""
__agentgym_last() { return "$1"; }
__agentgym_status=0
while IFS= read -r -d '' -u 4 __agentgym_command; do
  __agentgym_last "$__agentgym_status"
  eval "$__agentgym_command" 4<&-
  __agentgym_status=$?
  IFS= read -r -d '' -u 4 __agentgym_secret
  printf '%s %s\0' "$__agentgym_secret" "$__agentgym_status" >&4
done
"""


class SessionProcess:
    """One live session: its process, its streams, and the connection that sends it cells."""

    def __init__(self, place: runs.RunContext, kind: str, request: dict[str, Any]):
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
            raise FileError("invalid", f"cannot start a session: {error.strerror}; close others first") from None
        finally:
            theirs.close()
            runs.close_all([*write_ends, null])
        self._streams = runs.captures(read_ends, self._limits)
        self._end = follow.pidfd(self.pid)
        self._cell = CellEnd(self._commands)

    def run(self, code: bytes, limits: dict[str, Any]) -> tuple[dict[str, Any], list[bytes], bool]:
        """Run one cell; return the answer and whether the session is still alive."""
        started_at, used = time.monotonic(), processes.cpu_seconds(self.pid)
        self._place.kills.watch()
        for stream in self._streams:
            stream.keep(limits["reply_bytes" if stream is self._streams[2] else "output_bytes"])
        broken = "" if self._send(code, limits) else "timeout"
        broken = broken or follow.follow(
            self.pid,
            self._streams,
            self._end,
            limits["wall_s"],
            self._place.control,
            _CellLimits(self._place.watch, self.pid, used, limits["cpu_s"]),
            cell=self._cell,
        )
        duration = time.monotonic() - started_at
        if broken or self._cell.exit_code is None:
            return self._died(broken, limits, duration)
        for stream in self._streams:
            stream.drain()
        message = {"ended": "exited", "exit_code": self._cell.exit_code, "signal": None}
        cpu_s = max(0.0, processes.cpu_seconds(self.pid) - used)
        peak_kb = processes.peak_kb(self.pid) if self.kind == "python" else 0  # a shell's does not include its programs
        return (*runs.report(message, self._streams, duration, cpu_s, peak_kb), True)

    def close(self) -> None:
        """Kill the session and all its processes."""
        self._place.processes.kill_session(self.pid)
        self._place.processes.wait(self.pid)
        self._release()

    def _died(self, broken: str, limits: dict[str, Any], duration: float) -> tuple[dict[str, Any], list[bytes], bool]:
        if broken:
            self._place.processes.kill_session(self.pid)
        else:
            follow.drain(self._streams)
        waited = self._place.processes.wait(self.pid)
        self._place.processes.kill_session(self.pid)
        for stream in self._streams:
            stream.drain()
        status, cpu_s, peak_kb = waited if waited is not None else runs.NO_END
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
        secret = self._cell.expect()
        data = wire.encode({}, [code]) + secret if self.kind == "python" else b"%b\0%b\0" % (code, secret)
        self._commands.settimeout(limits["wall_s"])
        try:
            self._commands.sendall(data)
        except socket.timeout:  # noqa: UP041 (not the same class before Python 3.10)
            return False
        except OSError:
            pass  # the session closed its end; the caller, which waits for it, notices
        finally:
            self._commands.setblocking(False)
        return True


class _CellLimits:
    """Checks the sandbox's limits while a cell runs, and the CPU time of each process in its session."""

    def __init__(self, watch: UsageMonitor, leader: int, used: float, cpu_s: float):
        self._watch = watch
        self._leader = leader
        self._before = {leader: used}
        self._cpu_s = cpu_s

    def pause(self) -> float:
        """Return the seconds until the next check."""
        return self._watch.pause()

    def breach(self) -> str:
        """Return the name of an exceeded limit, or `""`."""
        if self.pause():
            return ""
        exceeded = self._watch.breach()
        for pid in (self._leader, *processes.descendants(self._leader)):
            used = processes.cpu_seconds(pid)
            if used - self._before.setdefault(pid, used) > self._cpu_s:
                exceeded = exceeded or "cpu"
        return exceeded


def _body(kind: str, folder: str) -> int:
    if kind == "python":
        return cells.serve(folder)
    return child.execute(["bash", "--noprofile", "--norc", "-c", _BASH_LOOP])


class AgentSessions:
    """The live sessions of a sandbox, by number."""

    def __init__(self, place: runs.RunContext):
        self._place = place
        self._live: dict[int, SessionProcess] = {}
        self._number = 0
        self._resting: dict[int, float] | None = None
        self._disturbances = 0

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
        self._note_activity()
        self._live[self._number] = SessionProcess(self._place, request["kind"], request)
        return self._number

    def run(self, number: int, code: bytes, limits: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Run a cell, then kill processes that belong to no session."""
        session = self._live.get(number)
        if session is None:
            raise FileError("session_lost", f"session {number} does not exist")
        if session.kind == "bash" and b"\0" in code:
            raise FileError("invalid", "bash code cannot contain a NUL character")
        self._note_activity()
        self._place.processes.resume(session.pid)
        answer, blobs, alive = session.run(code, limits)
        if not alive:
            del self._live[number]
        self._place.processes.kill_others(self.leaders)
        answer["alive"] = alive
        return answer, blobs

    def _note_activity(self) -> None:
        """Note that something is about to run."""
        self._resting, self._disturbances = None, 0

    def keep_stopped(self) -> None:
        """Between cells: stop sessions again that are running although they were stopped; if that fails, kill all.

        A stopped process uses no CPU time, starts nothing and does not exit.
        """
        now = {pid: processes.cpu_seconds(pid) for pid in processes.descendants(os.getpid())}
        if self._resting is not None and now != self._resting:
            self._disturbances += 1
            self._place.processes.kill_others(self.leaders)
        self._resting = now
        if self._disturbances == _MOST_DISTURBANCES:
            self.shut_all()

    def shut(self, number: int) -> None:
        """Close a session; does nothing if it has ended."""
        session = self._live.pop(number, None)
        if session is not None:
            self._note_activity()
            session.close()
            self._place.processes.kill_others(self.leaders)

    def shut_all(self) -> None:
        """Close every session."""
        for number in list(self._live):
            self.shut(number)
