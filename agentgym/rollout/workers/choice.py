"""Workers by name."""

from __future__ import annotations

from agentgym.choices import nearest
from agentgym.errors import UsageError
from agentgym.rollout.jobs import EnvFactory
from agentgym.rollout.limits import Limits
from agentgym.rollout.workers.base import Workers
from agentgym.rollout.workers.local import LocalWorkers
from agentgym.rollout.workers.pool import EnvPool

WORKERS = ("inline", "threads", "processes", "ray")


def make_workers(workers: str | Workers, factory: EnvFactory, limits: Limits) -> Workers:
    """Return the workers that a setting names, or the object itself.

    Raises:
        UsageError: There are no such workers.
        MissingExtra: They need a package that is not installed.
    """
    if not isinstance(workers, str):
        return workers
    if workers in ("inline", "threads"):
        return LocalWorkers(EnvPool(factory), inline=workers == "inline")
    if workers == "processes":
        from agentgym.rollout.workers.processes import ProcessWorkers

        return ProcessWorkers(factory, limits.max_in_flight)
    if workers == "ray":
        from agentgym.rollout.workers.ray import RayWorkers

        return RayWorkers(factory, limits.max_in_flight)
    raise UsageError(f"there are no workers {workers!r}{nearest(workers, WORKERS)} Choose from {', '.join(WORKERS)}")
