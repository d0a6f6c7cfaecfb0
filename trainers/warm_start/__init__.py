"""Warm start: supervised learning on demonstrations before reinforcement learning, for any model, cached.

Most tool calls require copying, which models learn within a few dozen steps, sooner with some seeds than with others.
After a fixed number of steps, one policy may still earn nothing while another has nothing left to learn. A warm start
can therefore also end when the policy solves a share of tasks (`WarmStart.goal`).
"""

from agentgym.trainers.warm_start.making import Load, load_warm, solutions, warm_started
from agentgym.trainers.warm_start.settings import (
    Goal,
    MakePolicy,
    Own,
    Pretrained,
    Progress,
    WarmStart,
    no_progress,
    words_of,
)

__all__ = [
    "Goal",
    "Load",
    "MakePolicy",
    "Own",
    "Pretrained",
    "Progress",
    "WarmStart",
    "load_warm",
    "no_progress",
    "solutions",
    "warm_started",
    "words_of",
]
