"""The only server of a process: real HTTP on a free loopback port. The host selects the site, a header the episode.

It runs in a thread, starts with the first episode and stops with the process. A forked child starts its own server.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.base.errors import InfrastructureError, require
from agentgym.tasks.web.sites.episode import SiteEpisode
from agentgym.tasks.web.sites.site import Site, find_site

_START_SECONDS = 30.0


class SiteServer:
    """Serves the bundled sites on 127.0.0.1. Use `shared()`; separate instances are for tests."""

    def __init__(self) -> None:
        require("starlette", "web")
        require("uvicorn", "web")
        from agentgym.tools.serving.running import listen

        self._pid = os.getpid()
        self._episodes: dict[str, SiteEpisode] = {}
        self._folders: dict[str, Path] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._socket = listen("127.0.0.1", 0)
        self.port: int = self._socket.getsockname()[1]
        self._start()

    @classmethod
    def shared(cls) -> SiteServer:
        """Return this process's server, started on first use."""
        global _shared
        with _shared_lock:
            if _shared is not None and _shared._pid != os.getpid():
                _shared._socket.close()
                _shared = None
            if _shared is None:
                _shared = cls()
                atexit.register(_shared.stop)
            return _shared

    def open(self, site: str | Site, seed: int = 0, options: Mapping[str, Any] | None = None) -> SiteEpisode:
        """Begin an episode of a site."""
        resolved = find_site(site) if isinstance(site, str) else site
        with self._lock:
            self._count += 1
            token = f"e{self._count}-{os.urandom(8).hex()}"
        episode = SiteEpisode(token, resolved, seed, options, self.forget)
        self._episodes[token] = episode
        return episode

    def forget(self, token: str) -> None:
        """Stop answering requests for an episode."""
        self._episodes.pop(token, None)

    def serve_folder(self, host: str, folder: Path) -> None:
        """Serve the files of a folder, unchanged and without episodes, under a host name such as `miniwob.test`."""
        self._folders[host] = folder

    def find(self, token: str) -> SiteEpisode | None:
        """Return the open episode with a token."""
        return self._episodes.get(token)

    def folder(self, host: str) -> Path | None:
        """Return the folder served under a host name."""
        return self._folders.get(host)

    def stop(self) -> None:
        """Stop serving. Only the process that started the server stops it."""
        if self._pid != os.getpid():
            return
        self._uvicorn.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()
        for episode in list(self._episodes.values()):
            episode.close()

    def _start(self) -> None:
        from agentgym.tasks.web.sites.application import REQUEST_MOST, Application
        from agentgym.tools.serving.running import make_server

        self._uvicorn = make_server(Application(self), body_bytes=REQUEST_MOST)
        sockets = [self._socket]
        self._thread = threading.Thread(target=self._uvicorn.run, args=(sockets,), name="agentgym-sites", daemon=True)
        self._thread.start()
        ends = time.monotonic() + _START_SECONDS
        while not self._uvicorn.started:
            if not self._thread.is_alive() or time.monotonic() > ends:
                raise InfrastructureError("the server of the bundled sites did not start")
            time.sleep(0.005)


_shared: SiteServer | None = None
_shared_lock = threading.Lock()
