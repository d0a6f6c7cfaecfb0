"""Generated programming tasks."""

from agentgym.tasks.code.families import FAMILIES, Area, CodeFamily, TaskKind
from agentgym.tasks.code.source import CodeTasks

__all__ = ["FAMILIES", "Area", "CodeFamily", "CodeTasks", "TaskKind"]
