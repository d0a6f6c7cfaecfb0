"""Questions whose answers are found by searching: generated encyclopedias, masked passages."""

from agentgym.tasks.search.masked import MaskedSpanTasks
from agentgym.tasks.search.questions import FAMILIES
from agentgym.tasks.search.source import SearchTasks
from agentgym.tasks.search.world import documents_of

__all__ = ["FAMILIES", "MaskedSpanTasks", "SearchTasks", "documents_of"]
