"""Warm start: supervised learning on demonstrations before reinforcement learning, for any model, cached.

Models learn to copy, which most tool calls need, within a few dozen steps, and sooner with some seeds than with others.
After the same number of steps, one policy may still earn nothing and another may have nothing left to learn. A warm
start can therefore also end when the policy solves a share of tasks (`WarmStart.goal`).
"""

from agentgym.trainers.warm_start.demonstrations import solutions
from agentgym.trainers.warm_start.making import Load, warm_started
from agentgym.trainers.warm_start.playing import MakePolicy, words_of
from agentgym.trainers.warm_start.settings import Goal, Own, Pretrained, Progress, WarmStart, untold

__all__ = [
    "Goal",
    "Load",
    "MakePolicy",
    "Own",
    "Pretrained",
    "Progress",
    "WarmStart",
    "solutions",
    "untold",
    "warm_started",
    "words_of",
]
