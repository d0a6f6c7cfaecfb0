"""The agent's loop: take a request, do it, answer. One at a time, in one thread, until the driver goes away."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Any

from agentgym.tools.sandbox.agent import archive, files, runs, wire
from agentgym.tools.sandbox.agent.archive import BadArchive
from agentgym.tools.sandbox.agent.beneath import FileError, Workspace
from agentgym.tools.sandbox.agent.control import Control
from agentgym.tools.sandbox.agent.follow import DriverGone
from agentgym.tools.sandbox.agent.sessions import Sessions

Answer = tuple[dict[str, Any], list[bytes]]
_MAX_MESSAGE = 2000


class Agent:
    """Serves one sandbox over one control connection.

    Args:
        place: What its runs share.
        control: The connection to the driver.
    """

    def __init__(self, place: runs.Place, control: Control):
        self._place = place
        self._control = control
        self._workspace = Workspace(place.folder)
        self._sessions = Sessions(place)
        self._operations: dict[str, Callable[[dict[str, Any], list[bytes]], Answer]] = {
            "exec": lambda request, blobs: runs.execute(place, request, blobs, self._sessions.leaders),
            "open": lambda request, blobs: ({"session": self._sessions.open(request)}, []),
            "cell": lambda request, blobs: self._sessions.run(request["session"], blobs[0], request["limits"]),
            "shut": lambda request, blobs: self._nothing(self._sessions.shut(request["session"])),
            "read": lambda request, blobs: ({}, [files.read(self._workspace, request["path"], request["max_bytes"])]),
            "write": self._write,
            "list": self._list,
            "remove": lambda request, blobs: self._nothing(files.remove(self._workspace, request["path"])),
            "mkdir": lambda request, blobs: self._nothing(files.make_folder(self._workspace, request["path"])),
            "pack": lambda request, blobs: ({}, [files.pack(self._workspace, request["path"], request["max_bytes"])]),
            "unpack": self._unpack,
            "clear": lambda request, blobs: self._nothing(files.clear(self._workspace)),
            "health": lambda request, blobs: ({"healthy": self._healthy()}, []),
        }

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
            self._place.processes.end_others()

    def _answer(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        operation = self._operations.get(str(request.get("op")))
        if operation is None:
            return {"error": "invalid", "message": f"unknown operation {str(request.get('op'))[:99]!r}"}, []
        try:
            self._workspace.repair()
            return operation(request, blobs)
        except DriverGone:
            raise
        except FileError as error:
            return {"error": error.kind, "message": str(error)[:_MAX_MESSAGE]}, []
        except BadArchive as error:
            return {"error": "invalid", "message": str(error)[:_MAX_MESSAGE]}, []
        except Exception as error:
            return {"error": "internal", "message": f"{type(error).__name__}: {error}"[:_MAX_MESSAGE]}, []

    def _list(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        found, more = files.entries(self._workspace, request["path"], request["depth"], request["max_entries"])
        return {"more": more}, [files.table(found)]

    def _write(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        self._place.watch.make_room(len(blobs[0]), 1)
        return self._nothing(files.write(self._workspace, request["path"], request["mode"], blobs[0]))

    def _unpack(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        items = archive.split(blobs[0])
        self._place.watch.make_room(len(blobs[0]), len(items))
        return self._nothing(files.unpack(self._workspace, request["path"], items))

    def _healthy(self) -> bool:
        """Whether something can be run: the workspace is there, and a process can be started."""
        try:
            pid = os.fork()
        except OSError:
            return False
        if pid == 0:
            os._exit(0)
        waited = self._place.processes.wait(pid)
        return waited is not None and waited[0] == 0 and self._workspace.usable()

    @staticmethod
    def _nothing(_: None) -> Answer:
        return {}, []

    def _idle(self) -> None:
        """Wait for a request; meanwhile hold what live sessions do in the background to the sandbox's limits."""
        poll = select.poll()
        poll.register(self._control.read_fd, select.POLLIN)
        while self._sessions.leaders:
            if poll.poll(int(self._place.watch.pause() * 1000) + 1):
                return
            if self._place.watch.breach():
                self._sessions.shut_all()
