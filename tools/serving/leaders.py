"""`Leaders`: a few threads serve many connections, each request in the thread that finds it.

One thread, the leader, waits for all connections, and itself serves the request that comes: passing it to another
thread would take longer than a short step of an environment. If it takes long, another thread leads meanwhile, so that
blocking work holds up nobody else (Schmidt and others, "Leader/Followers", PLoP 2000).

One thread for each connection would be simpler. But hundreds that wait for the interpreter's lock wake up every moment
to ask for it, and in the end do little else.
"""

from __future__ import annotations

import select
import threading
import time
from contextlib import suppress
from typing import Protocol

from agentgym.eagerness import Eagerness

_PATIENCE_S = 0.005
"""Seconds after which a request is no short one."""
_IDLE_S = 10.0
"""Seconds without work after which a thread ends."""
_MOMENT_S = 0.0001
"""Seconds to look for the next request of a quick client."""
_CALM_S = 1.0
"""Seconds without work after which nobody looks for long requests."""


class Served(Protocol):
    """A connection."""

    def fileno(self) -> int:
        """Return the descriptor of its socket."""
        ...

    def serve(self) -> bool:
        """Serve what has come, and return whether to wait for more. Never raises."""
        ...

    def end(self) -> None:
        """Close the socket. Never raises."""
        ...


class Leaders:
    """Threads that wait for connections and serve them. They start when they are needed and end when they are not."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._eagerness = Eagerness(_MOMENT_S)
        self._connections: dict[int, Served] = {}
        self._leadership = threading.Lock()
        self._counting = threading.Lock()
        self._threads = self._followers = 0
        self._term = _Term()
        self._mine = threading.local()
        self._served = 0
        self._is_watched, self._watching = False, threading.Event()

    def add(self, connection: Served) -> None:
        """Serve a connection whenever something has come, until it wants no more.

        Raises:
            RuntimeError: The machine has no more threads.
            OSError: It cannot wait for more connections.
        """
        fileno = connection.fileno()
        with self._counting:
            if not self._is_watched:
                threading.Thread(target=self._watch, name="agentgym-watch", daemon=True).start()
                self._is_watched = True
            if not self._threads:
                self._start()
            self._connections[fileno] = connection
        try:
            self._poll.register(fileno, select.EPOLLIN)
        except OSError:
            with self._counting:
                del self._connections[fileno]
            raise

    def step_aside(self) -> None:
        """Let another thread lead while the calling one, which is serving, waits for something."""
        term: _Term | None = getattr(self._mine, "term", None)
        if term is not None:
            self._hand_over(term)

    def _lead(self) -> None:
        """Lead whenever nobody else does. Runs in each of the threads."""
        while self._has_turn():
            term = self._mine.term = self._term = _Term()
            while self._serve_next(term):
                pass
            if term.is_last:
                return

    def _has_turn(self) -> bool:
        """Wait for leadership, and return whether it came before this thread has idled for too long."""
        with self._counting:
            self._followers += 1
        has_turn = self._leadership.acquire(timeout=_IDLE_S)
        with self._counting:
            self._followers -= 1
            has_turn = has_turn or self._leadership.acquire(blocking=False)
            self._threads -= not has_turn
        return has_turn

    def _serve_next(self, term: _Term) -> bool:
        """Serve a request, and return whether this thread still leads."""
        ready = self._eagerness.wait(lambda: self._poll.poll(0, 1) or None, lambda: self._poll.poll(_IDLE_S, 1))
        if not ready:
            return not self._is_last(term)
        term.fileno = fileno = ready[0][0]
        connection = self._connections[fileno]
        term.begin()
        if not self._watching.is_set():
            self._watching.set()
        goes_on = connection.serve()
        self._served += 1
        if leads := term.take():
            if not goes_on:
                self._poll.unregister(fileno)
        else:
            with self._counting:  # whoever took leadership may still be unregistering
                if goes_on:
                    self._poll.register(fileno, select.EPOLLIN)
        if not goes_on:
            del self._connections[fileno]
            connection.end()
        return leads

    def _is_last(self, term: _Term) -> bool:
        """End the last thread if there are no connections."""
        with self._counting:
            if self._connections or self._threads > 1:
                return False
            self._threads, term.is_last = 0, True
            self._leadership.release()
            self._watching.set()
            return True

    def _hand_over(self, term: _Term) -> None:
        """Let another thread lead, if this term has not ended."""
        with self._counting:
            if not term.take():
                return
            self._poll.unregister(term.fileno)  # what comes there now waits until the thread at work has answered
            self._leadership.release()
            if not self._followers:
                with suppress(RuntimeError):  # if the machine has no more threads, the next one that is free leads
                    self._start()

    def _start(self) -> None:
        threading.Thread(target=self._lead, name="agentgym-stream", daemon=True).start()
        self._threads += 1

    def _watch(self) -> None:
        """Let another thread lead when a request takes long."""
        seen, calm_since = -1, time.monotonic()
        while self._has_threads():
            time.sleep(_PATIENCE_S)
            term, now = self._term, time.monotonic()
            if self._served != seen:
                seen, calm_since = self._served, now
            elif term.is_serving:
                self._hand_over(term)
            elif now - calm_since > _CALM_S:
                self._sleep()
                calm_since = time.monotonic()

    def _has_threads(self) -> bool:
        with self._counting:
            self._is_watched = self._threads > 0
            return self._is_watched

    def _sleep(self) -> None:
        """Wait for the next request."""
        self._watching.clear()
        if not self._term.is_serving and self._threads:
            self._watching.wait()


class _Term:
    """The time in which one thread leads."""

    def __init__(self) -> None:
        self._serving: list[None] = []
        self.fileno = -1
        """The connection that is being served."""
        self.is_last = False

    @property
    def is_serving(self) -> bool:
        """Whether a request is being served, and the leader still leads."""
        return bool(self._serving)

    def begin(self) -> None:
        """Begin to serve: from now on, leadership can be taken away."""
        self._serving.append(None)

    def take(self) -> bool:
        """Take leadership, or keep it, and return whether it was there to take: of two that try, one succeeds."""
        try:
            self._serving.pop()  # one step for the interpreter, so no lock is needed
        except IndexError:
            return False
        return True
