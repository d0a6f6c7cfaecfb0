"""What runs in a Ray actor: hosts environments for the rollout that made it. Never imports Ray itself."""

from __future__ import annotations

import os
import pickle
import sys

from agentgym.errors import UsageError
from agentgym.foreign.errors import describe
from agentgym.rollout.workers.host import Host, Reply, portable


class RayHost:
    """Answers requests. They and the replies travel as bytes: Ray would make arrays read-only and pickle more."""

    _host: Host

    async def begin(self, factory: bytes, paths: list[str], folder: str) -> bytes:
        """Take the factory of environments.

        Args:
            factory: The factory, pickled.
            paths: Where the rollout finds modules; those that exist here are searched too, after this node's own.
            folder: Where the rollout runs, and so does this if that exists here.

        Returns:
            A pickled reply.
        """
        sys.path += [path for path in paths if path not in sys.path and os.path.exists(path)]
        if os.path.isdir(folder):
            os.chdir(folder)
        try:
            self._host = Host(pickle.loads(factory))
        except Exception as error:
            return pickle.dumps(Reply(0, error=portable(_cannot_import(error))))
        return pickle.dumps(Reply(0))

    async def answer(self, request: bytes) -> bytes:
        """Do what a pickled request asks for; return the pickled reply."""
        try:
            asked = pickle.loads(request)
        except Exception as error:
            return pickle.dumps(Reply(0, error=portable(error)))
        return await self._host.pickled(asked)


def _cannot_import(error: Exception) -> Exception:
    if not isinstance(error, AttributeError | ImportError):
        return error
    return UsageError(
        f"a Ray actor cannot import the environment ({describe(error)}); install its package on every node of the "
        "cluster, or pass RayWorkers a runtime_env that does"
    )
