"""Refactoring tasks over several files, graded by the shape of the code (`checks`) and by the adapted tests."""

from agentgym.tasks.swe.refactor.checks import CheckResult, evaluate
from agentgym.tasks.swe.refactor.source import RefactorTasks, refactor_instances

__all__ = ["CheckResult", "RefactorTasks", "evaluate", "refactor_instances"]
