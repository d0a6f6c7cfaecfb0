"""`Description`: what a client knows of an environment that is served to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym.endings import Ending
from agentgym.env import Env
from agentgym.errors import InfrastructureError, UsageError
from agentgym.rewards import Channel, Scheme

_FROZEN = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)


class Description(BaseModel):
    """An environment as its server made it. Everything but the tasks, which are fetched one by one."""

    model_config = _FROZEN

    env: str
    """The name that the server gave it."""
    tools: list[dict[str, Any]]
    """The schemas of its tools; an episode may have others, which `reset` reports."""
    channels: dict[str, Channel]
    scheme: Scheme
    reasons: dict[str, Ending]
    """Its own reasons for an ending."""
    splits: dict[str, int | None]
    """Number of tasks by split; `None` if there is no end."""
    split: str
    dialect: str
    max_turns: int
    max_calls_per_turn: int
    max_concurrent: int | None
    is_revealed: bool
    """Whether tasks come with their data and gold, and solutions are served."""
    request_s: float
    """Seconds within which the server answers any request."""
    request_bytes: int
    """Largest request that the server takes."""

    @classmethod
    def of(cls, name: str, env: Env, *, is_revealed: bool, request_s: float, request_bytes: int) -> Self:
        """Describe an environment.

        Raises:
            UsageError: Its dialect has no name by which a client could make it.
        """
        dialect = env.dialect.name
        if not isinstance(dialect, str) or not dialect:
            raise UsageError(f"the dialect of {name!r} has no name, so no client can make it")
        return cls(
            env=name,
            tools=env.tools.schemas,
            channels=dict(env.channels),
            scheme=env.scheme,
            reasons=_reasons(type(env)),
            splits={split: env.tasks.size(split) for split in env.tasks.splits},
            split=env.split,
            dialect=dialect,
            max_turns=env.max_turns,
            max_calls_per_turn=env.max_calls_per_turn,
            max_concurrent=env.max_concurrent,
            is_revealed=is_revealed,
            request_s=request_s,
            request_bytes=request_bytes,
        )

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read what a server sent. Raises `InfrastructureError` if it is something else."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise InfrastructureError(
                f"the server describes its environment wrongly: {where}: {problem['msg']}"
            ) from error


def _reasons(env_class: type[Env]) -> dict[str, Ending]:
    """Return the reasons for an ending that a class and its bases declare."""
    declared = [vars(base).get("reasons", {}) for base in reversed(env_class.__mro__)]
    return {name: ending for reasons in declared for name, ending in reasons.items()}
