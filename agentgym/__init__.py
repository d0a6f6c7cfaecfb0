"""Multi-turn tool-use environments for training LLM agents with reinforcement learning.

Importing this package imports no other package; names are loaded on first use. It also makes the environments known to
Gymnasium: `gymnasium.make("agentgym/sql-v0")`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentgym.registration import register_with_gymnasium

if TYPE_CHECKING:
    from agentgym.endings import Ending as Ending
    from agentgym.endings import Reason as Reason
    from agentgym.engine.steps import Solution as Solution
    from agentgym.env import Env as Env
    from agentgym.errors import InfrastructureError as InfrastructureError
    from agentgym.errors import ToolError as ToolError
    from agentgym.errors import UsageError as UsageError
    from agentgym.messages import Message as Message
    from agentgym.messages import ToolCall as ToolCall
    from agentgym.registry import list_environments as list_environments
    from agentgym.registry import make as make
    from agentgym.registry import register as register
    from agentgym.rewards import Channel as Channel
    from agentgym.rewards import Gate as Gate
    from agentgym.rewards import Scheme as Scheme
    from agentgym.schema_tool import SchemaTool as SchemaTool
    from agentgym.schema_tool import schema_tools as schema_tools
    from agentgym.second_model import SecondModel as SecondModel
    from agentgym.task import GeneratedTasks as GeneratedTasks
    from agentgym.task import Task as Task
    from agentgym.task import TaskList as TaskList
    from agentgym.task import TaskSource as TaskSource
    from agentgym.toolset import Toolset as Toolset
    from agentgym.toolset import tool as tool

__version__ = "0.1.0"

_WHERE = {
    "Channel": "rewards",
    "Ending": "endings",
    "Env": "env",
    "Gate": "rewards",
    "GeneratedTasks": "task",
    "InfrastructureError": "errors",
    "Message": "messages",
    "Reason": "endings",
    "Scheme": "rewards",
    "SchemaTool": "schema_tool",
    "SecondModel": "second_model",
    "Solution": "engine.steps",
    "Task": "task",
    "TaskList": "task",
    "TaskSource": "task",
    "ToolCall": "messages",
    "ToolError": "errors",
    "Toolset": "toolset",
    "UsageError": "errors",
    "list_environments": "registry",
    "make": "registry",
    "register": "registry",
    "schema_tools": "schema_tool",
    "tool": "toolset",
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
