"""`Seat`: what a player knows about its episode besides the messages, without a reference to the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from agentgym.dialects.base import Dialect
from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.toolset import Tool, ToolOptions, Toolset


@dataclass(frozen=True)
class Seat:
    """A player's place in one episode."""

    tools: Toolset
    """The available tools as described to the model. They validate calls but cannot run them."""
    dialect: Dialect
    """The dialect of the model's calls."""
    seed: int
    """The player's random seed."""
    max_calls: int = 1
    """Tool calls allowed in one turn."""

    @classmethod
    def at(cls, env: Env, seed: int) -> Self:
        """Return a seat in the running episode of `env`."""
        return cls.of(env.tools.schemas, env.dialect, seed, env.max_calls_per_turn)

    @classmethod
    def of(cls, schemas: Iterable[Mapping[str, Any]], dialect: Dialect, seed: int, max_calls: int = 1) -> Self:
        """Return a seat in an episode whose tools have these schemas."""
        return cls(Toolset(map(_DescribedTool, schemas)), dialect, seed, max_calls)


class _DescribedTool(Tool):
    """A tool rebuilt from its schema. The original may be bound to the environment, so it is not exposed.

    Args:
        schema: Schema of the tool; this object owns it.
    """

    def __init__(self, schema: Mapping[str, Any]):
        function = schema["function"]
        super().__init__(
            function["name"], function["description"], function["parameters"], ToolOptions(), is_async=False
        )

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments if the schema allows them. The environment may be more lenient."""
        from agentgym.schema_tool import SchemaTool  # validators are slow to build, and few players need them

        return SchemaTool(self.schema, self.bound_to(None)).check(arguments)

    def bound_to(self, env: Any) -> Callable[..., Any]:
        """Return a function that always raises: calls are played as actions."""

        def refuse(*_: Any, **__: Any) -> Any:
            raise UsageError(f"{self.name!r} runs in the environment only; return its call as an action")

        return refuse
