"""The metrics that a suite can name."""

from __future__ import annotations

METRICS = {
    "success": "share of the tasks that were solved, with its interval",
    "pass@k": "chance that one of k attempts solves a task (unbiased)",
    "pass^k": "chance that all of k attempts solve a task",
    "reward": "mean reward of an episode",
    "channels": "mean of each reward channel",
    "turns": "mean number of turns",
    "tokens": "mean number of tokens, sampled and observed",
    "tool_calls": "mean number of tool calls",
    "tool_errors": "share of tool calls that returned an error, by category",
    "endings": "how episodes ended",
    "time": "seconds of an episode",
    "cost": "what the tokens cost, where prices are known",
    "figures": "the environment's own metrics",
}
"""Maps the name of each metric to its meaning."""
