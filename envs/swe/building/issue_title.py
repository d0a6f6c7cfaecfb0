"""Names the subject of an issue, and how the actual result differs from the expected one."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum

from agentgym.envs.swe.building.issue_code import double_quoted
from agentgym.envs.swe.building.probe import SnippetResult
from agentgym.envs.swe.building.snippet import Snippet
from agentgym.envs.swe.building.symptoms import Symptom
from agentgym.syntax import parse


class Fault(Enum):
    """How the actual result differs from the expected one."""

    CRASH = (
        "{subject} raises {got}",
        "{got} from {subject}",
        "{subject} fails with {got}",
        "Unexpected {got} from {subject}",
    )
    SILENT = (
        "{subject} no longer raises {expected}",
        "No {expected} from {subject}",
        "{subject} should raise {expected}, but does not",
    )
    OTHER_ERROR = (
        "{subject} raises {got} instead of {expected}",
        "{got} instead of {expected} from {subject}",
    )
    MESSAGE = ("Wrong error message from {subject}", "{subject}: the error message is wrong")
    NONE = ("{subject} gives `None`", "`None` from {subject}")
    TRUTH = ("{subject}: {got} instead of {expected}", "{subject} is {got}, should be {expected}")
    ORDER = ("{subject}: wrong order", "Wrong order in the result of {subject}")
    EMPTY = ("{subject} comes back empty", "Empty result from {subject}")
    MISSING = ("{subject} leaves something out", "Something is missing in the result of {subject}")
    EXTRA = ("{subject} returns more than it should", "Something extra in the result of {subject}")
    OFF_BY_ONE = ("{subject} is off by one", "Off by one in {subject}")
    NUMBER = ("{subject} gives a wrong number", "Wrong number from {subject}")
    SPACE = ("Whitespace is wrong in the output of {subject}", "{subject}: spacing is off")
    TEXT = ("Wrong text from {subject}", "{subject}: the text is wrong")
    EFFECT = ("{subject} does not work as expected", "Unexpected behaviour of {subject}", "Problem with {subject}")
    VALUE = ("Wrong result from {subject}", "{subject} gives a wrong result", "{subject} is wrong in some cases")


_OPERATORS = {
    "add": "+", "radd": "+", "sub": "-", "rsub": "-", "mul": "*", "rmul": "*", "truediv": "/", "rtruediv": "/",
    "pow": "**", "neg": "-", "and": "&", "or": "|", "xor": "^", "eq": "==", "ne": "!=", "contains": "in",
}  # fmt: skip
_SHORT = 45
_SPECIAL = {
    "getitem": "indexing {}", "setitem": "assigning to an item of {}", "delitem": "`del` on an item of {}",
    "iter": "iterating over {}", "lt": "comparing {}", "le": "comparing {}", "gt": "comparing {}", "ge": "comparing {}",
    "len": "`len()` of {}", "str": "`str()` of {}", "repr": "`repr()` of {}", "hash": "`hash()` of {}",
    **{name: f"`{sign}` with {{}}" for name, sign in _OPERATORS.items()},
}  # fmt: skip


def title_of(symptom: Symptom, package: str, rng: random.Random) -> str:
    """Return one line that names the part of the library and what is wrong with it."""
    subject = subject_of(symptom) or f"`{package}`"
    words = {"got": _name(symptom.got), "expected": _name(symptom.expected), "subject": subject}
    fault = fault_of(symptom.expected, symptom.got)
    if isinstance(symptom.snippet.last, ast.Name) and not symptom.got.raised:
        fault = Fault.EFFECT  # of an earlier call
    title = rng.choice(fault.value).format(**words)
    return title[:1].upper() + title[1:] if not title.startswith("`") else title


def fault_of(expected: SnippetResult, got: SnippetResult) -> Fault:
    """Return how two results differ, as a user would put it."""
    if got.raised and expected.raised:
        return Fault.MESSAGE if got.raised == expected.raised else Fault.OTHER_ERROR
    if got.raised or expected.raised:
        return Fault.CRASH if got.raised else Fault.SILENT
    if expected.repr == got.repr:
        return Fault.VALUE
    if got.type == "NoneType":
        return Fault.NONE
    if expected.type == "bool" == got.type:
        return Fault.TRUTH
    if expected.type == "str" == got.type:
        return Fault.SPACE if "".join(expected.str.split()) == "".join(got.str.split()) else Fault.TEXT
    try:
        return _of_values(literal(expected.repr), literal(got.repr))
    except (ValueError, SyntaxError):
        return Fault.VALUE


def literal(text: str) -> object:
    """Return the value that a text stands for. Raises `ValueError` or `SyntaxError` if it is not a literal."""
    return ast.literal_eval(parse(text, mode="eval"))


def _of_values(expected: object, got: object) -> Fault:
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return Fault.OFF_BY_ONE if abs(expected - got) == 1 else Fault.NUMBER
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        expected_items, got_items = Counter(map(repr, expected)), Counter(map(repr, got))
        if expected and not got:
            return Fault.EMPTY
        if expected_items == got_items:
            return Fault.ORDER
        if not got_items - expected_items:
            return Fault.MISSING
        if not expected_items - got_items:
            return Fault.EXTRA
    return Fault.VALUE


def _name(result: SnippetResult) -> str:
    return f"`{result.raised}`" if result.raised else f"`{result.repr}`"


def subject_of(symptom: Symptom) -> str:
    """Return the public function, method or class that an issue is about; empty if none is known."""
    code, end = symptom.snippet.code, double_quoted(symptom.snippet.end)
    if isinstance(symptom.snippet.last, ast.Attribute | ast.Subscript | ast.Compare) and len(end) <= _SHORT:
        return f"`{end}`"
    first, second = (symptom.got, symptom.expected) if symptom.got.raised else (symptom.expected, symptom.got)
    calls = [*reversed(first.calls), *reversed(second.calls)]
    for name in sorted(calls, key=lambda name: name.endswith(("__str__", "__repr__", "__eq__"))):
        owner, _, last = name.rpartition(".")
        special = last.strip("_") if last.startswith("__") else ""
        if "<" in name or "." in owner or owner.startswith("_") or (last.startswith("_") and not special):
            continue
        if special in ("init", "post_init"):
            return f"`{owner}`"
        if special in _SPECIAL and owner:
            return _SPECIAL[special].format(f"`{owner}`")
        if not special:
            return f"`{name}()`" if re.search(rf"\b{last}\(", code) else f"`{name}`"
    return next(_called(symptom.snippet), "")


def _called(snippet: Snippet) -> Iterator[str]:
    """Yield the imported functions, classes and methods that the code calls, last first."""
    imported = {alias.asname or alias.name for item in snippet.imports for alias in item.names}
    class_of: dict[str, str] = {}
    for item in snippet.setup:
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call) and isinstance(item.value.func, ast.Name):
            class_of |= {node.id: item.value.func.id for node in item.targets if isinstance(node, ast.Name)}
    for item in (snippet.last, *reversed(snippet.setup)):
        for call in [node for node in ast.walk(item) if isinstance(node, ast.Call)]:
            if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
                if class_of.get(call.func.value.id) in imported:
                    yield f"`{class_of[call.func.value.id]}.{call.func.attr}()`"
            elif isinstance(call.func, ast.Name) and call.func.id in imported:
                yield f"`{call.func.id}()`" if call.func.id.islower() else f"`{call.func.id}`"
