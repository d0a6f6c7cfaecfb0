"""Hosts environments in a Ray actor for the rollout that started it. Never imports Ray itself."""

from __future__ import annotations

import os
import pickle
import sys

from agentgym.errors import UsageError
from agentgym.foreign.errors import describe
from agentgym.rollout.workers.host import EnvHost, HostReply, portable


class RayHost:
    """Answers requests. Requests and replies are bytes: Ray would make arrays read-only and pickle more."""

    _host: EnvHost

    async def begin(self, factory: bytes, paths: list[str], folder: str) -> bytes:
        """Take the factory of environments.

        Args:
            factory: The factory, pickled.
            paths: The rollout's module search path; entries that exist here are added after this node's own.
            folder: The rollout's working directory; used here too if it exists.

        Returns:
            A pickled reply.
        """
        sys.path += [path for path in paths if path not in sys.path and os.path.exists(path)]
        if os.path.isdir(folder):
            os.chdir(folder)
        try:
            self._host = EnvHost(pickle.loads(factory))
        except Exception as error:
            return pickle.dumps(HostReply(0, error=portable(_cannot_import(error))))
        return pickle.dumps(HostReply(0))

    async def answer(self, request: bytes) -> bytes:
        """Carry out a pickled request; return the pickled reply."""
        try:
            opened = pickle.loads(request)
        except Exception as error:
            return pickle.dumps(HostReply(0, error=portable(error)))
        return await self._host.pickled(opened)


def _cannot_import(error: Exception) -> Exception:
    if not isinstance(error, AttributeError | ImportError):
        return error
    return UsageError(
        f"a Ray actor cannot import the environment ({describe(error)}); install its package on every node of the "
        "cluster, or pass RayWorkers a runtime_env that does"
    )
