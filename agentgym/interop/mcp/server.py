"""`McpServer`: the description of an MCP server and its time limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.errors import UsageError


@dataclass(frozen=True)
class McpServer:
    """An MCP server: a program that is started for each episode, or a URL.

    Args:
        command: The program and its arguments. It communicates over its standard streams and ends with the episode. It
            runs with the rights of this process: use a container if the policy is not trusted.
        url: The URL of a running server (streamable HTTP); each episode is a separate session.
        env: Environment variables of the program, in addition to `PATH`, `HOME` and similar ones.
        cwd: Its working directory.
        headers: Headers of every request, such as `{"Authorization": "Bearer ..."}`.
        only: The tools to offer; by default all.
        prefix: A prefix for the names of its tools, to distinguish those of several servers.
        start_s: Time limit for starting it and listing its tools.
        call_s: Time limit for a call.

    Raises:
        UsageError: There is neither a command nor a URL, or both.
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
            raise UsageError(f"command must be a list of words, not a string: {self.command!r}")

    @property
    def name(self) -> str:
        """Its name in errors."""
        return self.url or " ".join(self.command)
