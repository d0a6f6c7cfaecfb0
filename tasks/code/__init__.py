"""Generated programming tasks."""

from agentgym.tasks.code.families import FAMILIES, Area, Family, Kind
from agentgym.tasks.code.source import CodeTasks

__all__ = ["FAMILIES", "Area", "CodeTasks", "Family", "Kind"]
