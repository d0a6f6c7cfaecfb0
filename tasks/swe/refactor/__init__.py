"""Refactoring tasks over several files, graded by the shape of the code (`checks`) and by the adapted tests."""

from agentgym.tasks.swe.refactor.checks import ShapeCheckResult, evaluate
from agentgym.tasks.swe.refactor.source import RefactorTasks, refactor_instances

__all__ = ["RefactorTasks", "ShapeCheckResult", "evaluate", "refactor_instances"]
