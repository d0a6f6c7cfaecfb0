"""Issue texts made from failing tests, as a user who met the bug but has not read the code would write them.

Three levels of vagueness. A text never holds a line of the fix, the bug's file, the kind of bug, or the name of the
function that has it unless the failing test itself calls it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum

from agentgym.envs.swe.building.issue_example import MAX_LINES, Example, example_of
from agentgym.envs.swe.building.runner import Failure

MIN_TELLING = 8
"""Shorter lines of a fix (`else:`, `break`) reveal nothing and may appear by chance."""


class Vagueness(IntEnum):
    """How much an issue reveals."""

    EXAMPLE = 1
    """Code to run, its expected and its actual result."""
    SENTENCE = 2
    """One call and its result, in a sentence."""
    HUNCH = 3
    """Which part of the library misbehaves, and roughly how."""


@dataclass(frozen=True)
class Symptom:
    """A failing test that exposes one bug."""

    test: str
    source: str
    """Full text of the test's file."""
    failure: Failure | None


@dataclass(frozen=True)
class Secrets:
    """What a text must not reveal."""

    gold_lines: Collection[str]
    """Lines that the fix adds or removes."""
    functions: Collection[str]
    """Names of the functions that have the bugs."""
    paths: Collection[str]
    """Their files."""


_OPENINGS = (
    "I ran into this while using `{package}`.",
    "Since a recent change, something is off in `{package}`.",
    "I believe this is a bug in `{package}`.",
    "This used to work in `{package}`.",
    "We noticed a regression in `{package}`.",
    "Reporting a problem with `{package}` that our own checks caught.",
)
_CLOSINGS = (
    "Please fix the library so that it behaves as described; other behaviour should stay as it is.",
    "The rest of the library works, as far as I can tell, and should go on working.",
    "Could this be fixed in the library itself? Working around it in every caller is not an option for us.",
    "A fix should not change anything else that the library does.",
)
_HUNCHES_WRONG = (
    "The results of {names} are wrong in some cases.",
    "Something is wrong with {names}: it does not do what its documentation says for some inputs.",
    "In certain situations {names} gives an answer that cannot be right.",
)
_HUNCHES_RAISES = (
    "Calling {names} fails with `{kind}` on input that should be fine.",
    "An unexpected `{kind}` comes out of {names} for perfectly ordinary use.",
)
_HUNCHES_SILENT = (
    "It seems that {names} accepts things that it should refuse.",
    "Wrong use of {names} is no longer reported as an error.",
)


def issue_text(
    package: str, symptoms: Sequence[Symptom], secrets: Secrets, level: Vagueness, rng: random.Random
) -> tuple[str, Vagueness]:
    """Return an issue about the symptoms, and how vague it came out: vaguer if the text would reveal a secret.

    Args:
        package: Name of the package.
        symptoms: At least one for each bug, in the order of the text.
        secrets: What the text must not reveal.
        level: The requested vagueness.
        rng: Chooses between templates.
    """
    opening, closing = rng.choice(_OPENINGS).format(package=package), rng.choice(_CLOSINGS)
    choice = rng.randrange(12)
    reached = level
    parts: list[str] = []
    for symptom in symptoms:
        example = example_of(symptom.test, symptom.source, symptom.failure)
        for tried in Vagueness:
            text = _describe(example, symptom, tried, choice) if tried >= level else ""
            if text and not tells_secret(text, secrets, example.code if example else ""):
                parts.append(text)
                reached = max(reached, tried)
                break
    if not parts:
        parts, reached = (
            ["Some of what it computes is wrong, although nothing about how we use it has changed."],
            Vagueness.HUNCH,
        )
    joint = "\n\nThere is more:\n\n" if reached is not Vagueness.HUNCH else "\n\nAlso: "
    return f"{opening}\n\n{joint.join(dict.fromkeys(parts))}\n\n{closing}\n", reached


def tells_secret(text: str, secrets: Secrets, allowed: str = "") -> bool:
    """Whether a text reveals a secret.

    Args:
        text: The text.
        secrets: What it must not reveal.
        allowed: Code of a failing test; function names in it may be used.
    """
    lines = {line.strip() for line in secrets.gold_lines}
    if any(len(line) >= MIN_TELLING and line in text for line in lines):
        return True
    known = set(re.findall(r"\w+", allowed))
    names = {function.rpartition(".")[2] for function in secrets.functions} - known
    if any(name and re.search(rf"\b{re.escape(name)}\b", text) for name in names):
        return True
    files = {path.rpartition("/")[2] for path in secrets.paths} - {"__init__.py"}
    return any(file in text for file in files)


def _describe(example: Example | None, symptom: Symptom, level: Vagueness, choice: int) -> str:
    if level is Vagueness.HUNCH:
        return _hunch(example, choice)
    if example is None or not _result(example):
        return ""
    given = ", ".join(f"`{name} = {value}`" for name, value in example.given if len(value) < 200)
    if level is Vagueness.SENTENCE:
        if example.needs_code or len(example.call) > 160 or "`" in example.call:
            return ""
        return f"`{example.call}`{f' with {given}' if given else ''} {_result(example)}."
    if example.code.count("\n") >= MAX_LINES or "```" in example.code:
        return ""
    with_ = f"With {given}:\n\n" if given else ""
    return f"{with_}```python\n{example.code}\n```\n\nThe last line {_result(example)}."


def _result(example: Example) -> str:
    """What happens, as the end of a sentence; empty if that is not known."""
    if example.should_raise and example.raises:
        return f"should raise `{example.should_raise}`, but raises `{example.raises}`"
    if example.should_raise:
        return f"should raise `{example.should_raise}`, but nothing is raised"
    if example.raises:
        wanted = f" instead of giving {_quoted(example.expected)}" if example.expected else ""
        return f"raises `{example.raises}`{wanted}"
    if example.expected and example.got and example.got != example.expected:
        return f"should give {_quoted(example.expected)}, but gives `{example.got}`"
    if example.expected:
        return f"should give {_quoted(example.expected)}, but does not"
    return ""


def _quoted(text: str) -> str:
    return text if text in ("a true value", "a false value") else f"`{' '.join(text.split())}`"


def _hunch(example: Example | None, choice: int) -> str:
    names = example.names[:2] if example else ()
    shown = " with ".join(f"`{name}`" for name in names) or "the library"
    if example and example.raises:
        kind = example.raises.partition(":")[0]
        return _HUNCHES_RAISES[choice % len(_HUNCHES_RAISES)].format(names=shown, kind=kind)
    if example and example.should_raise:
        return _HUNCHES_SILENT[choice % len(_HUNCHES_SILENT)].format(names=shown)
    return _HUNCHES_WRONG[choice % len(_HUNCHES_WRONG)].format(names=shown)
