"""Multi-turn tool-use environments for training LLM agents with reinforcement learning.

Importing this package imports no other package; names are loaded on first use. It also makes the environments known to
Gymnasium: `gymnasium.make("agentgym/sql-v0")`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentgym.core.registration import register_with_gymnasium

if TYPE_CHECKING:
    from agentgym.base.errors import InfrastructureError as InfrastructureError
    from agentgym.base.errors import ToolError as ToolError
    from agentgym.base.errors import UsageError as UsageError
    from agentgym.core.endings import Ending as Ending
    from agentgym.core.endings import Reason as Reason
    from agentgym.core.engine.steps import Solution as Solution
    from agentgym.core.env import Env as Env
    from agentgym.core.messages import Message as Message
    from agentgym.core.messages import ToolCall as ToolCall
    from agentgym.core.registry import list_environments as list_environments
    from agentgym.core.registry import make as make
    from agentgym.core.registry import register as register
    from agentgym.core.rewards import Channel as Channel
    from agentgym.core.rewards import Gate as Gate
    from agentgym.core.rewards import Scheme as Scheme
    from agentgym.core.schema_tool import SchemaTool as SchemaTool
    from agentgym.core.schema_tool import schema_tools as schema_tools
    from agentgym.core.second_model import SecondModel as SecondModel
    from agentgym.core.task import GeneratedTasks as GeneratedTasks
    from agentgym.core.task import Task as Task
    from agentgym.core.task import TaskList as TaskList
    from agentgym.core.task import TaskSource as TaskSource
    from agentgym.core.toolset import Toolset as Toolset
    from agentgym.core.toolset import tool as tool

__version__ = "0.1.0"

_WHERE = {
    "Channel": "core.rewards",
    "Ending": "core.endings",
    "Env": "core.env",
    "Gate": "core.rewards",
    "GeneratedTasks": "core.task",
    "InfrastructureError": "base.errors",
    "Message": "core.messages",
    "Reason": "core.endings",
    "Scheme": "core.rewards",
    "SchemaTool": "core.schema_tool",
    "SecondModel": "core.second_model",
    "Solution": "core.engine.steps",
    "Task": "core.task",
    "TaskList": "core.task",
    "TaskSource": "core.task",
    "ToolCall": "core.messages",
    "ToolError": "base.errors",
    "Toolset": "core.toolset",
    "UsageError": "base.errors",
    "list_environments": "core.registry",
    "make": "core.registry",
    "register": "core.registry",
    "schema_tools": "core.schema_tool",
    "tool": "core.toolset",
}

__all__ = [*sorted(_WHERE), "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentgym' has no attribute {name!r}")
    module = import_module(f"agentgym.{_WHERE[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


register_with_gymnasium()
