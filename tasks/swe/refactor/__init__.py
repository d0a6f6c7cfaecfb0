"""Refactoring tasks over several files, graded by the shape of the code (`checks`) and by the adapted tests."""

from agentgym.tasks.swe.refactor.source import RefactorTasks, ShapeCheckResult, evaluate, refactor_instances

__all__ = ["RefactorTasks", "ShapeCheckResult", "evaluate", "refactor_instances"]
