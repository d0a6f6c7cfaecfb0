"""`Hosting`: an MCP server's configuration and the file that it writes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.core import registry
from agentgym.core.env import Env
from agentgym.core.trajectory import Trajectory, write_jsonl
from agentgym.tools.mcp_server.choosing import Choice


@dataclass
class Hosting:
    """The configuration of a server, and the state that its sessions share.

    Args:
        env_id: The environment.
        settings: Its arguments.
        choice: Which episodes it plays. Session number *n*, from 0, adds *n* to the seed, and to the index if set.
        out: The file to which finished episodes are appended.
        sessions: Maximum number of open sessions.
        request_s: Time limit for beginning an episode and for a tool call; an episode that exceeds it fails.
        idle_s: Seconds without a request after which a session is closed.
    """

    env_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    choice: Choice = field(default_factory=Choice)
    out: Path | None = None
    sessions: int = 64
    request_s: float = 300.0
    idle_s: float = 600.0

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._writing = threading.Lock()
        self.is_stopping = False
        """Whether the server is shutting down, which cuts its episodes off."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the environment. Clients get the tools' schemas, so no dialect describes the tools."""
        return {**self.settings, "dialect": "native"}

    def make(self) -> Env:
        """Return a new environment."""
        return registry.make(self.env_id, **self.arguments)

    def next_number(self) -> int:
        """Return the number of a new session, from 0."""
        return next(self._numbers)

    def keep(self, trajectory: Trajectory) -> None:
        """Append a finished episode to the file, if there is one."""
        if self.out is not None:
            with self._writing:
                write_jsonl(self.out, [trajectory], append=True)
