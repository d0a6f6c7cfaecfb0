"""The configuration of an environment server: which environments it offers, and its limits."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agentgym.base.cache import cache_folder
from agentgym.base.errors import AgentGymError, UsageError
from agentgym.core import registry
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.core.making import why_refused


@dataclass(frozen=True)
class EnvOffer:
    """The environments that a server makes for its clients.

    Args:
        envs: Ids or `module:Class`. Only these are made, whatever a client asks for.
        settings: Arguments of all environments; clients cannot change them.
        is_revealed: Whether clients may see the tasks' data and gold, and the solutions.
    """

    envs: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_revealed: bool = False

    @property
    def key(self) -> bytes | None:
        """The secret that keeps clients from guessing golds by their hash; `None` if they may see them."""
        return None if self.is_revealed else _machines_key()

    def resolve(self, name: Any) -> str:
        """Return the id of the requested environment; `None` means the only one. Raises `UsageError`."""
        if name is None and len(self.envs) == 1:
            return self.envs[0]
        if name not in self.envs:
            raise UsageError(f"this server has no environment {name!r}; it has: {', '.join(self.envs)}")
        return name

    def make(self, name: str, arguments: Any) -> Env:
        """Make an environment for a client.

        Raises:
            UsageError: An argument is wrong, or the environment does not declare it as harmless.
            InfrastructureError: The environment cannot be made.
        """
        if not isinstance(arguments, Mapping):
            raise UsageError(f"arguments must be an object, not {type(arguments).__name__!r}")
        kind = registry.class_of(name)
        harmless = kind.harmless_arguments - set(self.settings)
        if refused := sorted(set(arguments) - harmless):
            allowed = ", ".join(sorted(harmless))
            raise UsageError(f"clients cannot set {', '.join(map(repr, refused))} of {name!r}; they can set: {allowed}")
        for argument, value in arguments.items():
            if problem := why_refused(kind, argument, value):
                raise UsageError(f"the client {problem}; the server's operator can set it with --set {argument}=...")
        return self._make(name, arguments)

    def _make(self, name: str, arguments: Mapping[str, Any]) -> Env:
        try:
            return registry.make(name, **self.settings, **arguments)
        except AgentGymError:
            raise
        except Exception as error:
            if not arguments:
                raise
            # The server made it without arguments at startup, so the arguments are at fault.
            raise UsageError(f"{name!r} cannot be made with these arguments: {describe(error)}") from error


_KEY_BYTES = 32
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


@cache
def _machines_key() -> bytes:
    """Return the secret of this machine, made at first use, so that hashes are the same after a restart.

    If the cache folder cannot be written, return one that is valid for this process.
    """
    path = cache_folder() / "task-hash.key"
    key = secrets.token_bytes(_KEY_BYTES)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
            file.write(key)
        stored = path.read_bytes()
        return stored if len(stored) == _KEY_BYTES else key
    return key


@dataclass(frozen=True)
class EnvServing:
    """Configuration of a server of environments.

    Args:
        token: The token that every request must carry.
        sessions: Maximum number of open sessions.
        request_s: Time limit for a reset, a step or making an environment; a session that exceeds it ends.
        idle_s: Seconds without a request after which a session is closed.
        request_bytes: Maximum size of a request.
    """

    token: str
    sessions: int = 512
    request_s: float = 300.0
    idle_s: float = 600.0
    request_bytes: int = 8 << 20

    def __post_init__(self) -> None:
        if len(self.token) < 16:
            raise UsageError("a server's token must have at least 16 characters")
