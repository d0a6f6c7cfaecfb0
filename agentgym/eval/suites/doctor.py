"""Examines tasks: golds that their data do not determine, and graders that refuse right or accept wrong answers.

Right answers are the gold in other spellings, wrong ones are golds with a value changed. An environment that knows its
golds better names both itself (`Examined`); otherwise the last call of the solution is varied, if it holds a short
text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

from agentgym.base.errors import UsageError
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.policy import Move, Script, as_action, steps
from agentgym.core.task import Task
from agentgym.eval.suites.loading import TaskSet

MAX_CHARS = 200
"""Longer last arguments of a solution, such as programs, are not varied."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]|,\d)")


@dataclass(frozen=True)
class Doubt:
    """A reason why the data do not determine a gold."""

    kind: str
    """A few words, such as "tie at LIMIT"."""
    reason: str


@dataclass(frozen=True)
class AnswerCase:
    """An answer with the right verdict on it."""

    name: str
    """How it differs from the gold."""
    calls: tuple[ToolCall, ...]
    is_right: bool


@runtime_checkable
class Examined(Protocol):
    """An environment that examines its own golds. Both methods are called in a running episode of the task."""

    def doubts(self, task: Task) -> Iterable[Doubt]:
        """Yield the reasons why the data do not determine the gold."""
        ...

    def answer_cases(self, task: Task) -> Iterable[AnswerCase]:
        """Yield right and wrong answers."""
        ...


@dataclass(frozen=True)
class TaskDoubt:
    """A doubt about one task."""

    task_id: str
    kind: str
    reason: str


@dataclass(frozen=True)
class WrongVerdict:
    """An answer that the grader judged wrongly."""

    task_id: str
    case: str
    answer: str
    is_right: bool


@dataclass
class Examination:
    """The findings in one set of tasks."""

    doubts: list[TaskDoubt] = field(default_factory=list)
    right: int = 0
    """Number of right answers that were graded."""
    wrong: int = 0
    """Number of wrong answers that were graded."""
    verdicts: list[WrongVerdict] = field(default_factory=list)
    """Wrong verdicts."""
    not_examined: list[str] = field(default_factory=list)
    """Tasks without an answer that can be varied, and tasks whose episodes break, which the check of gold reports."""

    @property
    def false_rejects(self) -> int:
        """Number of right answers that were refused."""
        return sum(verdict.is_right for verdict in self.verdicts)

    @property
    def false_accepts(self) -> int:
        """Number of wrong answers that were accepted."""
        return len(self.verdicts) - self.false_rejects

    def to_dict(self) -> dict[str, Any]:
        """Return the examination as JSON data. Rates without any answer are `None`."""
        return {
            "doubts": [asdict(doubt) for doubt in self.doubts],
            "right_answers": self.right,
            "wrong_answers": self.wrong,
            "false_reject_rate": self.false_rejects / self.right if self.right else None,
            "false_accept_rate": self.false_accepts / self.wrong if self.wrong else None,
            "wrong_verdicts": [asdict(verdict) for verdict in self.verdicts],
            "not_examined": self.not_examined,
        }


def examine(tasks: TaskSet, seed: int = 0, on_done: Callable[[], object] = lambda: None) -> Examination:
    """Examine a set of tasks.

    Args:
        tasks: The tasks.
        seed: Random seed of the episodes.
        on_done: Called after each task.

    Raises:
        UsageError: The environment cannot be made or played.
    """
    examination = Examination()
    with closing(tasks.factory()) as env:
        for task in tasks.tasks:
            try:
                _examine_task(env, task, seed, examination)
            except UsageError:
                raise
            except Exception:  # the environment's code may raise anything
                examination.not_examined.append(task.id)
            on_done()
    return examination


def _examine_task(env: Env, task: Task, seed: int, examination: Examination) -> None:
    env.reset(seed=seed, options={"task": task})
    if isinstance(env, Examined):
        examination.doubts += [TaskDoubt(task.id, doubt.kind, doubt.reason) for doubt in env.doubts(task)]
        cases = list(env.answer_cases(task))
    else:
        cases = list(cases_from_solution(env, task, seed))
    if not cases:
        examination.not_examined.append(task.id)
    for case in cases:
        examination.right += case.is_right
        examination.wrong += not case.is_right
        if _is_solved(env, task, seed, case.calls) != case.is_right:
            answer = str(next(iter(case.calls[-1].arguments.values()), ""))
            examination.verdicts.append(WrongVerdict(task.id, case.name, answer, case.is_right))


def cases_from_solution(env: Env, task: Task, seed: int) -> Iterator[AnswerCase]:
    """Yield variants of the last call of the solution, if it has one short text and alone decides the outcome.

    The calls before it are repeated only if the answer is not graded without them.
    """
    env.reset(seed=seed, options={"task": task})
    try:
        calls = _calls_of(env, task)
    except UsageError:  # without a solution
        return
    if not calls or not all(isinstance(call, ToolCall) for call in calls):
        return
    last = calls[-1]
    if len(last.arguments) != 1:
        return
    [(argument, gold)] = last.arguments.items()
    if not isinstance(gold, str) or not 0 < len(gold) <= MAX_CHARS or "\n" in gold:
        return
    before = () if _is_solved(env, task, seed, (last,)) else tuple(calls[:-1])
    if not _is_solved(env, task, seed, (*before, last)):
        return
    for is_right, variants in ((True, respelt(gold)), (False, altered(gold))):
        for name, text in variants.items():
            yield AnswerCase(name, (*before, replace(last, arguments={argument: text})), is_right)


def _calls_of(env: Env, task: Task) -> list[Any]:
    """Play the solution in the running episode and return its moves."""
    script: Script[Move] = Script(env.solution(task))
    moves: list[Move] = []
    observation: list[Any] = []
    while (move := script.next_move(observation)) is not None:
        moves.append(move)
        result = env.step(as_action(env, move))
        if result.terminated or result.truncated:
            break
        observation = result.observation
    return moves


def _is_solved(env: Env, task: Task, seed: int, calls: Sequence[ToolCall]) -> bool:
    env.reset(seed=seed, options={"task": task})
    return any(result.info.get("is_success", False) for result in steps(env, calls))


def respelt(text: str) -> Mapping[str, str]:
    """Return other spellings of a short answer that mean the same, by the difference."""
    variants = {"spaces around it": f"  {text} ", "a full stop after it": f"{text.rstrip('.')}."}
    variants["decomposed accents"] = unicodedata.normalize("NFD", text)
    variants["composed accents"] = unicodedata.normalize("NFC", text)
    variants["typographic apostrophes"] = text.replace("'", "’")
    if re.fullmatch(r"\d{4,}", text):
        variants["thousands separated"] = f"{int(text):,}"
    if re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        variants["thousands joined"] = text.replace(",", "")
    return {name: variant for name, variant in variants.items() if variant != text}


def altered(text: str) -> Mapping[str, str]:
    """Return wrong answers that look like a short answer, by the difference."""
    variants = {"denied": f"not {text}", "empty quotes": '""'}
    if numbers := list(_NUMBER.finditer(text)):
        last = numbers[-1]
        number = Decimal(last[0])
        others = {"the next number": number + 1}
        if number:
            others |= {"a thousandth more": number * Decimal("1.001"), "ten times as much": number * 10}
        variants |= {name: f"{text[: last.start()]}{other:f}{text[last.end() :]}" for name, other in others.items()}
    if len(words := text.split()) > 1 and not numbers:
        variants["without the last word"] = " ".join(words[:-1])
        variants["another order"] = " ".join([*words[1:], words[0]])
    if text[:1].isalpha():
        variants["another first letter"] = ("X" if text[0].upper() != "X" else "Y") + text[1:]
    return {name: variant for name, variant in variants.items() if variant.strip() and variant != text}
