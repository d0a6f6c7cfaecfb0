"""Makes the content of a task (prompt, data, gold) from a family's draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from agentgym.procedural import NoFit
from agentgym.tasks.code.cases import Case, Trial, output_of
from agentgym.tasks.code.families import CodeDraft, CodeFamily, Function, Program, TaskKind

_ASKS = (
    "Write a Python function that does the following.",
    "Please implement this function in Python.",
    "I need this function in Python.",
)
_BUGGY = (
    "The function below is meant to do this, but it has a bug. Please fix it:",
    "The code below does not do that yet. Repair it:",
    "I wrote this, but some of its results are wrong. Can you fix it?",
)
_LONGEST_ANSWER = 400


@dataclass(frozen=True)
class Content:
    """The prompt, data and gold of a task."""

    prompt: str
    data: dict[str, Any]
    gold: dict[str, Any]


def build(family: CodeFamily, draft: CodeDraft, rng: Random) -> Content:
    """Return the content of a task. Raises `NoFit` if the draft makes a poor one."""
    text = family.word(draft, rng).strip()
    if isinstance(draft, Program):
        return _program(family, draft, text)
    return _function(family, draft, text, rng)


def _program(family: CodeFamily, draft: Program, text: str) -> Content:
    answer = output_of(draft.code)
    if len(answer) > _LONGEST_ANSWER:
        raise NoFit
    data: dict[str, Any] = {"kind": family.kind.value, "needs_code": draft.needs_code}
    if family.kind is TaskKind.PREDICT:
        text = f"{text}\n\n```python\n{draft.code}```"
        data["code"] = draft.code
    return Content(text, data, {"answer": answer, "code": draft.code})


def _function(family: CodeFamily, draft: Function, text: str, rng: Random) -> Content:
    trial = Trial(draft, rng)
    if not trial.is_good:
        raise NoFit
    examples = trial.examples()
    data: dict[str, Any] = {
        "kind": family.kind.value,
        "needs_code": True,
        "entry_point": draft.entry_point,
        "signature": draft.signature,
        "examples": [case.to_dict() for case in examples],
    }
    if family.kind is TaskKind.FIX:
        broken = trial.bugs(2 if family.level == 5 else 1)
        if broken is None:
            raise NoFit
        data["code"] = broken.source
        request = f"{text}\n\n{rng.choice(_BUGGY)}\n\n```python\n{broken.source}```"
    else:
        request = f"{rng.choice(_ASKS)} {text}\n\n```python\n{draft.signature}\n```"
    prompt = f"{request}\n\nExamples:\n{_example_lines(draft.entry_point, examples)}"
    gold = {"code": draft.source, "cases": [case.to_dict() for case in trial.hidden_cases()]}
    return Content(prompt, data, gold)


def _example_lines(entry_point: str, examples: Sequence[Case]) -> str:
    """Return the examples as lines of calls and results."""
    lines = []
    for case in examples:
        args = case.args[1:-1].rstrip(",") if case.args.endswith(",)") else case.args[1:-1]
        lines.append(f"{entry_point}({args}) -> {case.expect}")
    return "\n".join(lines)
