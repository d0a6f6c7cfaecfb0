"""`McpServer`: which server to use, and how long to wait for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.errors import UsageError


@dataclass(frozen=True)
class McpServer:
    """An MCP server: a program that is started for each episode, or a URL.

    Args:
        command: The program and its arguments. It speaks over its standard streams, and is ended with the episode. It
            runs with the rights of this process: put it into a container if the policy is not to be trusted.
        url: The URL of a server that runs already (streamable HTTP); each episode is a session of its own.
        env: Variables of the program's environment, besides `PATH`, `HOME` and the like.
        cwd: Its working directory.
        headers: Headers of every request, such as `{"Authorization": "Bearer ..."}`.
        only: The tools to offer; by default all.
        prefix: Put before the names of its tools, to tell those of several servers apart.
        start_s: Seconds that starting it and listing its tools may take.
        call_s: Seconds that a call may take.

    Raises:
        UsageError: Neither a command nor a URL is given, or both.
    """

    command: Sequence[str] = ()
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    only: Collection[str] | None = None
    prefix: str = ""
    start_s: float = 60.0
    call_s: float = 60.0

    def __post_init__(self) -> None:
        if bool(self.command) == (self.url is not None):
            raise UsageError("an MCP server has either command=[program, ...] or url=...")
        if isinstance(self.command, str):
            raise UsageError(f"command is a list of words, not a line: {self.command!r}")

    @property
    def name(self) -> str:
        """Its name in errors."""
        return self.url or " ".join(self.command)
