"""Comparisons of two runs on the same tasks (`compare`), and of several runs each (`compare_seeds`)."""

from agentgym.eval.comparison.pairs import Comparison, MeasureChange, PartResult, TaskResult, compare
from agentgym.eval.comparison.runs import Attempt, Run, attempt_of, read_run, run_of
from agentgym.eval.comparison.tables import Estimate, ScoreComparison, SeedsComparison, compare_seeds

__all__ = [
    "Attempt",
    "Comparison",
    "Estimate",
    "MeasureChange",
    "PartResult",
    "Run",
    "ScoreComparison",
    "SeedsComparison",
    "TaskResult",
    "attempt_of",
    "compare",
    "compare_seeds",
    "read_run",
    "run_of",
]
