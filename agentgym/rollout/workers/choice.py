"""Workers by name."""

from __future__ import annotations

from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError
from agentgym.rollout.jobs import EnvFactory
from agentgym.rollout.limits import Limits
from agentgym.rollout.workers.base import Workers
from agentgym.rollout.workers.local import LocalWorkers
from agentgym.rollout.workers.pool import EnvPool

WORKERS = ("inline", "threads", "processes", "ray")


def make_workers(workers: str | Workers, factory: EnvFactory, limits: Limits) -> Workers:
    """Return the workers that a setting names, or the object itself.

    Args:
        workers: A name, `ray:ADDRESS` for those of a certain Ray cluster (`RayWorkers`), or an object.
        factory: Makes the environments.
        limits: Limits of the rollout, such as the number of episodes at once.

    Raises:
        UsageError: There are no such workers.
        MissingExtra: They need a package that is not installed.
    """
    if not isinstance(workers, str):
        return workers
    name, _, address = workers.partition(":")
    if workers in ("inline", "threads"):
        return LocalWorkers(EnvPool(factory), inline=workers == "inline")
    if workers == "processes":
        from agentgym.rollout.workers.processes import ProcessWorkers

        return ProcessWorkers(factory, limits.max_in_flight)
    if name == "ray":
        from agentgym.rollout.workers.ray_actors import RayWorkers

        return RayWorkers(factory, limits.max_in_flight, address=address or None)
    raise _unknown(workers)


def with_address(workers: str, ray: str | None) -> str:
    """Return the setting for workers and the address of a Ray cluster, if one was given.

    Raises:
        UsageError: There are no such workers, or they have no address.
    """
    if workers not in WORKERS and not workers.startswith("ray:"):
        raise _unknown(workers)
    if ray is None:
        return workers
    if workers != "ray":
        raise UsageError(f"the address of a Ray cluster ({ray}) needs workers 'ray', not {workers!r}")
    return f"ray:{ray}"


def _unknown(workers: str) -> UsageError:
    return UsageError(f"there are no workers {workers!r}{nearest(workers, WORKERS)} Choose from {', '.join(WORKERS)}")
