"""The public formats: each turns an entry of a file into the content of a task. Files, ids and splits are elsewhere."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from doctest import DocTestParser
from typing import Any

from agentgym.base.syntax import parse
from agentgym.core.answers.numbers import read_quantity
from agentgym.core.task import TEST, TRAIN, VALIDATION
from agentgym.core.task_files import Unusable, Why
from agentgym.tasks.code.asserts import (
    assert_example,
    asserts_check,
    called_function,
    expected_results,
    helpers,
    literal,
    literal_call,
    only_candidate,
    plain_cases,
    pytest_check,
)
from agentgym.tasks.code.families import TaskKind
from agentgym.tasks.records import Record

_SHOWN = re.compile(r"^\s*(?:>>>\s*)?(?P<call>\w+\(.*\))\s*(?:==|=>|->|➞|=)\s*(?P<value>.+?)\s*$", re.MULTILINE)
_MBPP_PROBLEMS = 974
_ERRORS = (SyntaxError, ValueError, RecursionError)


@dataclass(frozen=True)
class CodeEntry(Record):
    """One entry of a file."""

    support: Mapping[str, str] = field(default_factory=dict)
    """Sources that the tests of the whole file share, by file name."""


@dataclass(frozen=True)
class EntryContent:
    """The content of a task made from an entry."""

    name: str
    """The entry's name in the file; empty if it has none."""
    prompt: str
    difficulty: int
    data: dict[str, Any]
    gold: dict[str, Any]
    area: str


@dataclass(frozen=True)
class CodeFormat:
    """A public format.

    Args:
        fields: The fields that identify its entries.
        read: Makes a task's content from an entry.
    """

    fields: tuple[str, ...]
    read: Callable[[CodeEntry], EntryContent]
    split: Callable[[CodeEntry], str | None] = lambda entry: None
    """Returns the split that the data set itself assigns to an entry, if any."""


def human_eval(entry: CodeEntry) -> EntryContent:
    """Read a HumanEval problem: complete a function from its head and description."""
    prompt, name = entry.text("prompt"), entry.text("entry_point")
    code = prompt + entry.text("canonical_solution")
    head = prompt.split(f"def {name}(")[0].strip()
    try:
        data = _function_data(TaskKind.FUNCTION, code, name)
        head = _before(code, name)
        data["prelude"] = f"{head}\n" if head else ""
        check = only_candidate(entry.text("test").strip() + "\n", name)
        examples = docstring_examples(ast.get_docstring(_function(code, name)) or "", name)
        data["examples"] = _uncontradicted(examples, expected_results(check))
    except _ERRORS as error:
        raise Unusable(f"its prompt, solution or test is not Python: {error}") from error
    return EntryContent(
        name=entry.label("task_id").rpartition("/")[2],
        prompt=f"Complete this Python function; give its whole source.\n\n```python\n{prompt.strip()}\n```",
        difficulty=_size_level(entry.text("canonical_solution")),
        data=data,
        gold={"code": code, "check": check},
        area="algorithms",
    )


def mbpp(entry: CodeEntry) -> EntryContent:
    """Read an MBPP problem, in the original (`text`) or the sanitized (`prompt`) form."""
    code, tests = entry.text("code").replace("\r\n", "\n"), entry.texts("test_list")
    if not tests:
        raise Unusable("'test_list' is empty")
    tests += [test for test in entry.texts("challenge_test_list") if test not in tests]
    setup = "\n".join([*entry.texts("test_imports"), str(entry.fields.get("test_setup_code") or "")]).strip()
    try:
        name = called_function(code, tests)
        if name is None:
            raise Unusable("its tests call no function that its code defines")
        data = _function_data(TaskKind.FUNCTION, code, name)
        data["prelude"] = helpers(code, name, "\n".join([setup, *tests]))
        example = assert_example(tests[0], name)
        check = asserts_check(name, tests, setup)
    except _ERRORS as error:
        raise Unusable(f"its code or tests are not Python: {error}") from error
    data["examples"] = [example] if example else []
    first_test = "" if example else f"\n\nIt is tested like this:\n{tests[0].strip()}"
    return EntryContent(
        name=entry.label("task_id"),
        prompt=f"{entry.text('text', 'prompt').strip()}\n\n```python\n{data['signature']}\n```{first_test}",
        difficulty=_size_level(code),
        data=data,
        gold={"code": code, "check": check},
        area="algorithms",
    )


def mbpp_split(entry: CodeEntry) -> str | None:
    """Return the split that MBPP assigns to a problem by its number; the ten few-shot problems count as training."""
    number = entry.label("task_id")
    if not number.isdecimal() or not 1 <= int(number) <= _MBPP_PROBLEMS:
        return None
    return TEST if 11 <= int(number) <= 510 else VALIDATION if 511 <= int(number) <= 600 else TRAIN


def gsm8k(entry: CodeEntry) -> EntryContent:
    """Read a GSM8K problem: a story whose answer, a number, follows `####`."""
    steps, mark, last = entry.text("answer").rpartition("####")
    quantity = read_quantity(last) if mark else None
    if quantity is None or quantity.unit not in ("", "$", "%"):
        raise Unusable(f"'answer' must end with '#### ' and a number, not {last.strip()!r:.60}")
    number = quantity.value
    answer = repr(number if isinstance(number, int) else float(number))
    return EntryContent(
        name="",
        prompt=entry.text("question").strip(),
        difficulty=min(5, max(1, steps.count("<<"))),
        data={"kind": TaskKind.VALUE.value, "needs_code": False},
        gold={"answer": answer, "code": f"print({answer})\n"},
        area="numeric",
    )


def quixbugs(entry: CodeEntry) -> EntryContent:
    """Read a QuixBugs program: repair a classic algorithm with one wrong line."""
    name, tests = entry.text("id"), entry.text("pytest")
    try:
        buggy, description = _without_notes(entry.text("buggy"))
        fixed, _ = _without_notes(entry.text("fixed"))
        data = _function_data(TaskKind.FIX, fixed, name) | {"code": buggy}
        cases = _json_cases(entry, str(entry.fields.get("json_cases") or ""))
        gold, examples = _quixbugs_tests(name, tests, cases, docstring_examples(description, name), entry.support)
    except _ERRORS as error:
        raise Unusable(f"its programs or tests are not Python: {error}") from error
    data["examples"] = examples
    return EntryContent(
        name=name,
        prompt=f"This function has a bug in one line. Repair it.\n\n{description}\n\n```python\n{buggy}```",
        difficulty=_size_level(fixed),
        data=data,
        gold={"code": fixed, **gold},
        area="algorithms",
    )


def docstring_examples(text: str, entry_point: str) -> list[dict[str, str]]:
    """Return at most three calls with results that a description shows, as far as both are plain literals."""
    pairs: list[tuple[str, str]] = []
    with suppress(ValueError):  # looks like a session but cannot be parsed
        pairs += [(example.source, example.want) for example in DocTestParser().get_examples(text)]
    pairs += [(match["call"], match["value"]) for match in _SHOWN.finditer(text)]
    expected: dict[str, str] = {}
    for call, value in pairs:
        args, expect = literal_call(call, entry_point), literal(value)
        if args is not None and expect is not None:
            expected.setdefault(args, expect)
    return [{"args": args, "expect": expect} for args, expect in expected.items()][:3]


FORMATS = {
    "humaneval": CodeFormat(("canonical_solution", "entry_point"), human_eval),
    "mbpp": CodeFormat(("code", "test_list"), mbpp, mbpp_split),
    "gsm8k": CodeFormat(("question", "answer"), gsm8k),
    "quixbugs": CodeFormat(("buggy", "fixed"), quixbugs),
}
"""The formats by name."""


def _uncontradicted(examples: list[dict[str, str]], results: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the examples that the check does not contradict: some descriptions are wrong about their own function."""
    return [case for case in examples if results.get(case["args"], case["expect"]) == case["expect"]]


def _function_data(kind: TaskKind, code: str, name: str) -> dict[str, Any]:
    """Return the task data of a function, taken from its correct source. Raises `ValueError` if it defines none."""
    head = deepcopy(_function(code, name))
    head.body, head.decorator_list = [ast.Pass()], []
    signature = ast.unparse(head).rpartition("\n")[0]
    return {"kind": kind.value, "needs_code": True, "entry_point": name, "signature": signature}


def _function(code: str, name: str) -> ast.FunctionDef:
    """Return the function with a name; the last definition counts."""
    nodes = [node for node in parse(code).body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not nodes:
        raise ValueError(f"no function {name!r}")
    return nodes[-1]


def _before(code: str, name: str) -> str:
    """Return the source that comes before a function."""
    node = _function(code, name)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(code.split("\n")[: first - 1]).strip()


def _quixbugs_tests(
    name: str, tests: str, cases: list[tuple[Any, Any]], examples: list[dict[str, str]], support: Mapping[str, str]
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return the hidden cases if the tests only compare results, else a check; and the examples to show."""
    plain = plain_cases(tests, cases)
    if plain is None:
        node = support.get("node.py", "") if "from node import" in tests else ""
        if "from node import" in tests and not node:
            raise Unusable("its tests need node.py, which is not among the helper files", Why.UNSUPPORTED)
        return {"check": pytest_check(name, tests, cases, node)}, examples
    used = {case["args"] for case in examples}
    all_cases = [{"args": repr(tuple(args)), "expect": repr(expect)} for args, expect in plain]
    hidden = [case for case in all_cases if case["args"] not in used]
    return ({"cases": hidden}, examples) if len(hidden) > 1 else ({"cases": all_cases}, [])


def _json_cases(entry: CodeEntry, text: str) -> list[tuple[Any, Any]]:
    cases = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                arguments, expected = json.loads(line)
            except (ValueError, TypeError, RecursionError) as error:
                raise Unusable(f"test case {number} is not a pair of input and output: {error}") from error
            cases.append((arguments if isinstance(arguments, list) else [arguments], expected))
    return cases


def _without_notes(source: str) -> tuple[str, str]:
    """Return a program without its top-level strings, and the last of these."""
    tree = parse(source)
    notes = [node for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    lines = source.split("\n")
    for node in reversed(notes):
        del lines[node.lineno - 1 : node.end_lineno]
    texts = [node.value.value for node in notes if isinstance(node.value, ast.Constant)]
    return "\n".join(lines).strip() + "\n", str(texts[-1]).strip() if texts else ""


def _size_level(code: str) -> int:
    """Return a difficulty derived from the number of lines of the correct code."""
    return min(5, 1 + len([line for line in code.splitlines() if line.strip()]) // 5)
