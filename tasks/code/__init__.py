"""Generated programming tasks."""

from agentgym.tasks.code.families import FAMILIES, Area, Family, Kind
from agentgym.tasks.code.source import TEST_UNSEEN, CodeTasks

__all__ = ["FAMILIES", "TEST_UNSEEN", "Area", "CodeTasks", "Family", "Kind"]
