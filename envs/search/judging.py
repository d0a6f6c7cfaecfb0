"""ReSeek's JUDGE action: after each search, the policy is paid for judging correctly whether the results help.

The published reward compares the verdict with a reranker's similarity of results and gold; above 0.7 counts as useful
(ReSeek, 2025; only a summary of it was available). Without a reranker, results are useful if they contain a page that
no earlier search had found and that is evidence or states an accepted answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.base.errors import ToolError, UsageError
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import Channel
from agentgym.core.toolset import tool
from agentgym.envs.search.answers import mentions
from agentgym.envs.search.playing import Mode, ModePart

RIGHT, TOOK_USELESS, LEFT_USEFUL = 0.3, -0.6, -0.3
USEFUL_ABOVE = 0.7
_SHORTEST = 3
"""Shorter answers (in characters) are not looked for in pages: most pages contain them by chance."""

Scorer = Callable[[str, Mapping[str, Any]], float]
"""Returns the similarity, from 0 to 1, of the results of a search and a task's gold."""


@dataclass(frozen=True)
class Judging(Mode):
    """Ask for a verdict after every search (ReSeek)."""

    scorer: Scorer | None = None
    """Scores the usefulness of results from 0 to 1, such as a reranker. By default, new evidence is useful."""

    rule = "After each search, judge whether its results help."
    channels = {
        "judge": Channel("ReSeek's reward of a verdict on results", TOOK_USELESS, RIGHT, per_turn=True, cheap=True),
        "judged_right": Channel("the reward of a right verdict", high=RIGHT, per_turn=True, cheap=True),
        "judged_wrong": Channel("the reward of a wrong verdict", TOOK_USELESS, 0.0, per_turn=True),
    }

    def __post_init__(self) -> None:
        if self.scorer is not None and not callable(self.scorer):
            raise UsageError(f"the scorer of mode 'reseek' must be a function, not {self.scorer!r}")

    def part(self, env: Env) -> ResultsJudge:
        """Return the judge of an environment."""
        return ResultsJudge(env, self.scorer)


class ResultsJudge(ModePart):
    """Asks for a verdict on every search, and rewards it."""

    pending = False
    """Whether the last search still needs a verdict."""
    useful = False
    """Whether the results of the last search help."""

    def __init__(self, env: Env, scorer: Scorer | None):
        super().__init__(env)
        self._scorer = scorer

    def begin(self) -> None:
        """Forget the last search."""
        self.pending = self.useful = False

    def check(self, tool: str) -> None:
        """Refuse every tool until the last search has its verdict."""
        if self.pending:
            raise ToolError("First judge the results of the last search: call judge.")

    def after_search(self, results: str, new: Mapping[str, str]) -> None:
        """Determine whether the results help, and wait for the verdict."""
        task = self.env.task
        if self._scorer is not None:
            self.useful = self._scorer(results, task.gold) > USEFUL_ABOVE
        else:
            self.useful = brings_news(new, task.gold, task.prompt)
        self.pending = True

    @tool
    def judge(self, useful: bool) -> str:
        """Judge whether the results of the last search help to answer the question.

        Args:
            useful: Whether they do.
        """
        if not self.pending:
            raise ToolError("There are no new results to judge. Search first.")
        self.pending = False
        earned = worth(useful, self.useful)
        self.env.reward("judge", earned)
        self.env.reward("judged_right" if earned > 0 else "judged_wrong", earned)
        return "Go on."

    def steps_after_search(self, found_evidence: bool) -> Solution:
        """Judge results as useful if they hold a document that the answer rests on."""
        yield ToolCall("judge", {"useful": found_evidence})


def worth(judged: bool, useful: bool) -> float:
    """Return the reward of a verdict."""
    if judged == useful:
        return RIGHT
    return TOOK_USELESS if judged else LEFT_USEFUL


def brings_news(new: Mapping[str, str], gold: Mapping[str, Any], question: str) -> bool:
    """Whether a search found new evidence or an answer.

    Args:
        new: The shown text of each page that no earlier search had found, by page id.
        gold: The task's gold.
        question: The question.
    """
    return not new.keys().isdisjoint(gold.get("evidence", ())) or shows_answer(new.values(), gold, question)


def shows_answer(texts: Iterable[str], gold: Mapping[str, Any], question: str) -> bool:
    """Whether one of `texts` states an accepted answer. Short answers, and those in the question, are ignored."""
    answers = telling_answers(gold, question)
    return any(mentions(text, answers) for text in texts)


def telling_answers(gold: Mapping[str, Any], question: str) -> list[str]:
    """Return the accepted answers that are neither short nor in the question: few pages name them by chance."""
    return [answer for answer in gold["answers"] if len(answer) >= _SHORTEST and not mentions(question, [answer])]
