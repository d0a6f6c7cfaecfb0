"""ReSeek's JUDGE action: after each search the policy says whether what came back helps, and is paid for being right.

The published reward compares the verdict with a reranker's similarity of results and gold, above 0.7 being useful
(ReSeek, 2025; only a summary of it was at hand). Without a reranker, results are useful if they show evidence that had
not been shown before, or an accepted answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym.envs.search.answers import contains

RIGHT, TOOK_USELESS, LEFT_USEFUL = 0.3, -0.6, -0.3
USEFUL_ABOVE = 0.7

Scorer = Callable[[str, Mapping[str, Any]], float]
"""Similarity from 0 to 1 of what a search showed and a task's gold."""


def worth(said: bool, useful: bool) -> float:
    """Return the reward of a verdict."""
    if said == useful:
        return RIGHT
    return TOOK_USELESS if said else LEFT_USEFUL


def shows_answer(text: str, gold: Mapping[str, Any]) -> float:
    """Return 1 if an accepted answer stands in `text`, else 0: the scorer where there is no reranker."""
    return float(contains(text, gold["answers"]))
