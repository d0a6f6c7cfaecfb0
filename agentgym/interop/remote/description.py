"""`Description`: the properties of a served environment that a client needs."""

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
    """A served environment, without its tasks, which are fetched one by one."""

    model_config = _FROZEN

    env: str
    """Its name on the server."""
    tools: list[dict[str, Any]]
    """Schemas of its tools; an episode may have other tools, which `reset` reports."""
    channels: dict[str, Channel]
    scheme: Scheme
    reasons: dict[str, Ending]
    """Its own reasons for an ending."""
    splits: dict[str, int | None]
    """Number of tasks by split; `None` if the split is endless."""
    split: str
    dialect: str
    max_turns: int
    max_calls_per_turn: int
    max_concurrent: int | None
    is_revealed: bool
    """Whether the server sends the tasks' data and gold, and solutions."""
    request_s: float
    """Seconds within which the server answers any request."""
    request_bytes: int
    """Maximum size of a request."""

    @classmethod
    def of(cls, name: str, env: Env, *, is_revealed: bool, request_s: float, request_bytes: int) -> Self:
        """Describe an environment.

        Raises:
            UsageError: Its dialect has no name, so a client cannot make it.
        """
        dialect = env.dialect.name
        if not isinstance(dialect, str) or not dialect:
            raise UsageError(f"the dialect of {name!r} has no name, so clients cannot make it")
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
        """Parse a server's description. Raises `InfrastructureError` if it is malformed."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise InfrastructureError(
                f"the server's description of its environment: {where}: {problem['msg']}"
            ) from error


def _reasons(env_class: type[Env]) -> dict[str, Ending]:
    """Return the reasons for an ending that a class and its bases declare."""
    declared = [vars(base).get("reasons", {}) for base in reversed(env_class.__mro__)]
    return {name: ending for reasons in declared for name, ending in reasons.items()}
