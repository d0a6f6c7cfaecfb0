"""Grades an answer by the chosen rule, and computes the other channels that depend on it."""

from __future__ import annotations

from typing import Literal

from agentgym.envs.search.answers import abstains, contains, exact, f1, nearly
from agentgym.rewards import OUTCOME
from agentgym.task import Task

Solved = Literal["em", "f1", "contains"]
"""The rule for a right answer."""


def why_wrong(answer: str, task: Task, rule: Solved) -> str:
    """Return why an answer is wrong, without revealing the gold."""
    if task.gold["unanswerable"]:
        return "an answer where there is none"
    if abstains(answer):
        return "no answer where there is one"
    return f"not right by the rule {rule!r} (F1 {f1(answer, task.gold['answers']):.2f})"


def verdict(answer: str, task: Task, rule: Solved) -> dict[str, float]:
    """Return the channels that depend on the answer alone.

    Args:
        answer: The answer, without citations.
        task: The task. If its question has no answer, only saying so is right, whatever the rule.
        rule: The rule for answers to other questions.
    """
    gold = task.gold
    wrong = gold.get("wrong")
    if gold["unanswerable"]:
        right = matches = abstains(answer)
        overlap = float(right)
    else:
        golds = gold["answers"]
        matches, overlap = exact(answer, golds), f1(answer, golds)
        right = {"em": matches, "f1": nearly(answer, golds), "contains": contains(answer, golds, task.prompt)}[rule]
    return {
        OUTCOME: float(right),
        "answered": 1.0,
        "em": float(matches),
        "f1": overlap,
        "misled": float(bool(wrong) and contains(answer, [wrong], task.prompt)),
    }
