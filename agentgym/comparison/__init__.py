"""Comparisons of two runs on the same tasks (`compare`), and of several runs each (`compare_seeds`)."""

from agentgym.comparison.pairs import Change, Comparison, Part, TaskResult, compare
from agentgym.comparison.runs import Attempt, Run, read_run, run_of
from agentgym.comparison.seeds import Estimate, ScoreComparison, SeedsComparison, compare_seeds

__all__ = [
    "Attempt",
    "Change",
    "Comparison",
    "Estimate",
    "Part",
    "Run",
    "ScoreComparison",
    "SeedsComparison",
    "TaskResult",
    "compare",
    "compare_seeds",
    "read_run",
    "run_of",
]
