"""The agent's loop: reads, executes and answers one request at a time, in one thread, until the driver is gone."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Any

from agentgym.tools.sandbox.agent import archive, files, runs, wire
from agentgym.tools.sandbox.agent.archive import BadArchive
from agentgym.tools.sandbox.agent.beneath import FileError, WorkspaceRoot
from agentgym.tools.sandbox.agent.control import Control
from agentgym.tools.sandbox.agent.follow import DriverGone
from agentgym.tools.sandbox.agent.sessions import AgentSessions

Answer = tuple[dict[str, Any], list[bytes]]
_NOTHING: Answer = ({}, [])
_MAX_MESSAGE = 2000


class Agent:
    """Serves one sandbox over one control connection.

    Args:
        place: The context that its runs share.
        control: The connection to the driver.
    """

    def __init__(self, place: runs.RunContext, control: Control):
        self._place = place
        self._control = control
        self._workspace = WorkspaceRoot(place.folder)
        self._sessions = AgentSessions(place)

    def serve(self) -> None:
        """Answer requests until the driver closes the connection."""
        try:
            while True:
                self._idle()
                answer, contents = self._answer(*self._control.receive())
                self._control.send(answer, contents)
        except (DriverGone, OSError, wire.BadFrame):
            return
        finally:
            self._place.processes.kill_others()

    def _answer(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        operation = _OPERATIONS.get(str(request.get("op")))
        if operation is None:
            return {"error": "invalid", "message": f"unknown operation {str(request.get('op'))[:99]!r}"}, []
        try:
            self._workspace.repair()
            return operation(self, request, blobs)
        except DriverGone:
            raise
        except FileError as error:
            return {"error": error.kind, "message": str(error)[:_MAX_MESSAGE]}, []
        except BadArchive as error:
            return {"error": "invalid", "message": str(error)[:_MAX_MESSAGE]}, []
        except Exception as error:
            self._place.processes.kill_others(self._sessions.leaders)
            return {"error": "internal", "message": f"{type(error).__name__}: {error}"[:_MAX_MESSAGE]}, []

    def do_exec(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Run a program to completion."""
        return runs.execute(self._place, request, blobs, self._sessions.leaders)

    def do_open(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Start a session."""
        return {"session": self._sessions.open(request)}, []

    def do_cell(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Run a cell of a session."""
        return self._sessions.run(request["session"], blobs[0], request["limits"])

    def do_shut(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Close a session."""
        self._sessions.shut(request["session"])
        return _NOTHING

    def do_read(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Read a file."""
        return {}, [files.read(self._workspace, request["path"], request["max_bytes"])]

    def do_write(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Write a file."""
        self._place.watch.make_room(len(blobs[0]), 1)
        files.write(self._workspace, request["path"], request["mode"], blobs[0])
        return _NOTHING

    def do_list(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """List a folder."""
        entries, more = files.entries(self._workspace, request["path"], request["depth"], request["max_entries"])
        return {"more": more}, [files.table(entries)]

    def do_remove(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Remove a file or folder."""
        files.remove(self._workspace, request["path"])
        return _NOTHING

    def do_mkdir(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Make a folder."""
        files.make_folder(self._workspace, request["path"])
        return _NOTHING

    def do_pack(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Return a folder as an archive."""
        return {}, [files.pack(self._workspace, request["path"], request["max_bytes"])]

    def do_unpack(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Unpack an archive."""
        items = archive.split(blobs[0])
        self._place.watch.make_room(len(blobs[0]), len(items))
        files.unpack(self._workspace, request["path"], items)
        return _NOTHING

    def do_clear(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Empty the workspace."""
        files.clear(self._workspace)
        return _NOTHING

    def do_health(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Report whether programs can run."""
        return {"healthy": self._healthy()}, []

    def _healthy(self) -> bool:
        """Whether programs can run: the workspace exists, and a process can be started."""
        try:
            pid = os.fork()
        except OSError:
            return False
        if pid == 0:
            os._exit(0)
        waited = self._place.processes.wait(pid)
        return waited is not None and waited[0] == 0 and self._workspace.usable()

    def _idle(self) -> None:
        """Wait for a request; meanwhile keep live sessions stopped, and enforce the sandbox's limits on them."""
        if self._control.waiting or not self._sessions.leaders:
            return
        poll = select.poll()
        poll.register(self._control.read_fd, select.POLLIN)
        while self._sessions.leaders:
            if poll.poll(int(self._place.watch.pause() * 1000) + 1):
                return
            if self._place.watch.breach():
                self._sessions.shut_all()
            self._sessions.keep_stopped()


_OPERATIONS: dict[str, Callable[[Agent, dict[str, Any], list[bytes]], Answer]] = {
    name[3:]: operation for name, operation in vars(Agent).items() if name.startswith("do_")
}
