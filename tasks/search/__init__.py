"""Questions whose answers are found by searching: generated encyclopedias, masked passages."""

from agentgym.tasks.search.corpus import documents_of
from agentgym.tasks.search.masked import MaskedSpanTasks
from agentgym.tasks.search.questions import FAMILIES
from agentgym.tasks.search.source import SearchTasks

__all__ = ["FAMILIES", "MaskedSpanTasks", "SearchTasks", "documents_of"]
