"""`ServerPool`: PostgreSQL servers that are lent to one user at a time, and used again if they are as they were.

Roles, tablespaces and settings belong to a whole server, not to a database. So users never share one, and a server that
somebody changed is not lent again.
"""

from __future__ import annotations

import atexit
import os
import threading
from functools import cache
from typing import Any

from agentgym.errors import InfrastructureError
from agentgym.tools.postgres.server import Server

MAX_IDLE = 4
KEPT = "kept_"
"""How the names of databases begin that stay for the next user, who copies them. Nobody may connect to one."""
_SHARED = (
    "SELECT oid, rolname, rolsuper, rolcanlogin, rolcreaterole, rolcreatedb, rolinherit, rolbypassrls, rolreplication, "
    "rolconnlimit, rolpassword, rolvaliduntil::text FROM pg_authid ORDER BY oid",
    "SELECT roleid, member FROM pg_auth_members ORDER BY 1, 2",
    "SELECT oid, spcname, spcacl::text FROM pg_tablespace ORDER BY oid",
    "SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting ORDER BY 1, 2",
    "SELECT name, setting, error FROM pg_file_settings ORDER BY 1, 2",
    "SELECT datname, datdba, datistemplate, datallowconn, datconnlimit, datacl::text FROM pg_database "
    f"WHERE datallowconn OR NOT starts_with(datname, '{KEPT}') ORDER BY 1",
)
"""What users share in a server besides the databases that are made for them."""


class ServerPool:
    """Servers of this process.

    Args:
        allow_weak: Start servers unconfined if they cannot be confined.
    """

    def __init__(self, *, allow_weak: bool = False):
        self._allow_weak = allow_weak
        self._lock = threading.Lock()
        self._idle: list[Server] = []
        self._first: dict[int, Any] = {}
        self._pid = os.getpid()

    def lend(self) -> Server:
        """Return a server that nobody uses."""
        with self._lock:
            if self._pid != os.getpid():  # the parent's servers are not ours
                self._idle, self._first, self._pid = [], {}, os.getpid()
            server = self._idle.pop() if self._idle else None
        if server is not None and server.is_alive():
            return server
        if server is not None:
            self._discard(server)
        server = Server.start(allow_weak=self._allow_weak)
        self._first[id(server)] = _shared(server)
        return server

    def give_back(self, server: Server) -> None:
        """Take a server back, without the databases of its last user. One that was changed is closed."""
        try:
            unchanged = _shared(server) == self._first[id(server)]
        except InfrastructureError:
            unchanged = False
        with self._lock:
            if unchanged and len(self._idle) < MAX_IDLE:
                self._idle.append(server)
                return
        self._discard(server)

    def close(self) -> None:
        """Close all servers that are not lent."""
        with self._lock:
            idle, self._idle = self._idle, []
        for server in idle:
            self._discard(server)

    def _discard(self, server: Server) -> None:
        self._first.pop(id(server), None)
        server.close()


@cache
def default_pool(*, allow_weak: bool = False) -> ServerPool:
    """Return the pool that this process shares."""
    pool = ServerPool(allow_weak=allow_weak)
    atexit.register(pool.close)
    return pool


def _shared(server: Server) -> list[list[tuple[Any, ...]]]:
    return [server.run(query) for query in _SHARED]
