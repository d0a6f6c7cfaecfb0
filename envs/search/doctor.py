"""Examines the golds of questions: do the evidence pages state the answer, and does the grader know its spellings?"""

from __future__ import annotations

from collections.abc import Iterator

from agentgym.core.messages import ToolCall
from agentgym.core.task import Task
from agentgym.envs.search.answers import mentions
from agentgym.eval.suites.doctor import AnswerCase, Doubt, altered, respelt
from agentgym.tools.index import Index, NoSuchDocument

_NOT_STATED = ("yes", "no", "noanswer")


def doubts(task: Task, index: Index) -> Iterator[Doubt]:
    """Yield the reasons why the pages may not determine a task's gold."""
    texts: list[str] = []
    for page_id in task.gold.get("evidence", ()):
        try:
            page = index.open(page_id)
            texts.append(f"{page.title}: {page.text}")
        except NoSuchDocument:
            yield Doubt("no such page", f"the evidence page {page_id!r} is not in the index")
    answers = [answer for answer in task.gold["answers"] if answer.lower() not in _NOT_STATED]
    computed = any(hop.get("answer") for hop in task.gold.get("hops", ())) or mentions(task.prompt, answers)
    if texts and answers and not computed and not any(mentions(text, answers) for text in texts):
        yield Doubt("answer not stated", f"no evidence page states an accepted answer, such as {answers[0]!r}")
    for hop in task.gold.get("hops", ()):
        if hop.get("answer") and not any(mentions(text, [hop["answer"]]) for text in texts):
            yield Doubt("fact not stated", f"no evidence page states {hop['answer']!r}")


def answer_cases(task: Task) -> Iterator[AnswerCase]:
    """Yield right and wrong answers."""
    golds = task.gold["answers"]

    def case(name: str, text: str, is_right: bool) -> AnswerCase:
        return AnswerCase(name, (ToolCall("answer", {"text": text}),), is_right)

    if not golds:
        yield case("unknown", "unknown", True)
        yield case("yes", "yes", False)
        return
    for gold in golds:
        yield case("an accepted answer", gold, True)
    for name, text in respelt(golds[0]).items():
        yield case(name, text, True)
    yield case("unknown", "unknown", False)
    for name, text in altered(golds[0]).items():
        # A part of an answer, such as a surname, may be accepted as well.
        if not mentions(" | ".join(golds), [text]):
            yield case(name, text, False)
