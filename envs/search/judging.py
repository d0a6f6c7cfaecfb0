"""ReSeek's JUDGE action: after each search the policy says whether what came back helps, and is paid for being right.

The published reward compares the verdict with a reranker's similarity of results and gold, above 0.7 being useful
(ReSeek, 2025; only a summary of it was at hand). Without a reranker, results are useful if they bring something new:
a page of evidence that no search had found before, or a page not seen before that states an accepted answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentgym.envs.search.answers import mentions

RIGHT, TOOK_USELESS, LEFT_USEFUL = 0.3, -0.6, -0.3
USEFUL_ABOVE = 0.7
_SHORTEST = 3
"""Characters of the shortest answer that tells something where it stands in a page: most pages hold some 3."""

Scorer = Callable[[str, Mapping[str, Any]], float]
"""Similarity from 0 to 1 of what a search showed and a task's gold."""


def worth(said: bool, useful: bool) -> float:
    """Return the reward of a verdict."""
    if said == useful:
        return RIGHT
    return TOOK_USELESS if said else LEFT_USEFUL


def brings_news(new: Mapping[str, str], gold: Mapping[str, Any], question: str) -> bool:
    """Whether a search brought something that helps.

    Args:
        new: By id, what was shown of the pages that no search had found before.
        gold: The task's gold.
        question: The question.
    """
    return not new.keys().isdisjoint(gold.get("evidence", ())) or shows_answer(new.values(), gold, question)


def shows_answer(texts: Iterable[str], gold: Mapping[str, Any], question: str) -> bool:
    """Whether an accepted answer stands in one of `texts`, other than one that the question names or a mere digit."""
    answers = [answer for answer in gold["answers"] if len(answer) >= _SHORTEST and not mentions(question, [answer])]
    return any(mentions(text, answers) for text in texts)
