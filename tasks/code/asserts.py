"""Turns published tests into a `check(candidate)`, and the calls in them into examples, without running any code.

Supports asserts (MBPP) and pytest files with JSON test cases (QuixBugs). Files and tasks are handled elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

from agentgym.base.syntax import parse

CANDIDATE = "candidate"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Rename(ast.NodeTransformer):
    """Replaces names with expressions."""

    def __init__(self, names: dict[str, ast.expr]):
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return deepcopy(self._names.get(node.id, node)) if isinstance(node.ctx, ast.Load) else node


def literal_call(call: str, entry_point: str) -> str | None:
    """Return the arguments of `entry_point(...)` as a literal, or `None` if it is not a call with plain arguments."""
    try:
        node = parse(call.strip(), mode="eval").body
        if not isinstance(node, ast.Call) or node.keywords or ast.unparse(node.func) != entry_point:
            return None
        return repr(tuple(ast.literal_eval(argument) for argument in node.args))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def literal(text: str) -> str | None:
    """Return a Python literal in normal form, or `None` if the text is not a literal."""
    try:
        return repr(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def assert_example(test: str, entry_point: str) -> dict[str, str] | None:
    """Return the case that `assert f(1, 2) == 3` states, or `None` if it is not of that form."""
    body = parse(test).body
    match body[0] if len(body) == 1 else None:
        case ast.Assert(test=ast.Compare(left=call, ops=[ast.Eq()], comparators=[value])):
            args, expect = literal_call(ast.unparse(call), entry_point), literal(ast.unparse(value))
            if args is not None and expect is not None:
                return {"args": args, "expect": expect}
    return None


def called_function(code: str, tests: Iterable[str]) -> str | None:
    """Return the function that `code` defines and most of the tests call; on a tie, the one defined last."""
    defined = [node.name for node in parse(code).body if isinstance(node, _Function)]
    called = [{node.id for node in ast.walk(parse(test)) if isinstance(node, ast.Name)} for test in tests]
    counts = {name: sum(name in names for names in called) for name in defined}
    best = max(counts.values(), default=0)
    return [name for name in counts if counts[name] == best][-1] if best else None


def helpers(code: str, entry_point: str, tests: str) -> str:
    """Return the part of `code` that the tests need besides the entry point: the names used, and their dependencies."""
    body = parse(code).body
    named = {name: node for node in body for name in _defines(node) if name != entry_point}
    needed: set[str] = set()
    used = _names(parse(tests)) & set(named)
    while used - needed:
        needed |= used
        used = {name for done in needed for name in _names(named[done])} & set(named)
    if needed:
        needed.add("*")
    helpers = [node for node in body if set(_defines(node)) & needed and entry_point not in _defines(node)]
    return "".join(ast.unparse(node) + "\n" for node in helpers)


def asserts_check(entry_point: str, tests: Sequence[str], setup: str = "") -> str:
    """Return `check(candidate)` for asserts that call the entry point by its name."""
    lines = [ast.unparse(_call_candidate(parse(test), entry_point)) for test in tests]
    body = "".join(f"    {line}\n" for test in lines for line in test.split("\n"))
    prepared = f"{setup.strip()}\n\n\n" if setup.strip() else ""
    return f"{prepared}def check({CANDIDATE}):\n{body}"


def pytest_check(entry_point: str, source: str, cases: Sequence[tuple[Any, Any]], support: str) -> str:
    """Return `check(candidate)` for a pytest file: its tests in order, parametrised ones once per case.

    Args:
        entry_point: The function under test.
        source: The pytest file. Imports, and the code that chooses between two versions of the program, are left out.
        cases: Values of the test's two parameters.
        support: Source of the classes that the tests use.
    """
    body: list[ast.stmt] = []
    loaded: dict[str, ast.expr] = {}
    for node in parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            body += _loop(node, body.pop()) if body and _is_data(body[-1], node) else _cases(node, cases)
        elif isinstance(node, ast.FunctionDef):
            body += [node, *parse(f"{node.name}()").body]
        elif isinstance(node, ast.Assign):
            if "load_json_testcases" in ast.unparse(node.value):
                loaded[_target(node)] = _expression(repr([list(case) for case in cases]))
            else:
                body.append(_Rename(loaded).visit(node))
    check = parse(f"def check({CANDIDATE}): pass")
    first = check.body[0]
    assert isinstance(first, ast.FunctionDef)
    first.body = body
    head = f"{support.strip()}\n\n\n" if support.strip() else ""
    return head + ast.unparse(ast.fix_missing_locations(_call_candidate(check, entry_point))) + "\n"


def plain_cases(source: str, cases: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]] | None:
    """Return the cases that a pytest file does not skip if it asserts only `f(*input) == expected`; else `None`."""
    body = parse(source).body
    tests = [node for node in body if isinstance(node, ast.FunctionDef)]
    if len(tests) != 1 or not tests[0].decorator_list or sum(_is_data(node, tests[0]) for node in body) != 1:
        return None
    inputs, expected = (argument.arg for argument in tests[0].args.args)
    match [node for node in tests[0].body if not _skips(node)]:
        case [ast.Assert(test=ast.Compare(left=ast.Call(func=ast.Name()) as call, comparators=[ast.Name(id=name)]))]:
            if name == expected and [ast.unparse(argument) for argument in call.args] == [f"*{inputs}"]:
                return _not_skipped(tests[0], cases)
    return None


def expected_results(check: str) -> dict[str, str]:
    """Return the results that `check(candidate)` expects for plain arguments, by arguments, both as literals."""
    results: dict[str, str] = {}
    for node in ast.walk(parse(check)):
        if isinstance(node, ast.Assert) and (case := assert_example(ast.unparse(node), CANDIDATE)):
            results[case["args"]] = case["expect"]
    return results


def only_candidate(check: str, entry_point: str) -> str:
    """Return the check with every name of the function under test replaced by `candidate`."""
    tree = parse(check)
    return ast.unparse(_call_candidate(tree, entry_point)) + "\n" if entry_point in _names(tree) else check


def _cases(test: ast.FunctionDef, cases: Sequence[tuple[Any, Any]]) -> list[ast.stmt]:
    """Return the body of a test once per case: a single assert with the values in it, or all of it after the values."""
    inputs, expected = (argument.arg for argument in test.args.args)
    rest = [node for node in test.body if not _skips(node)]
    body: list[ast.stmt] = []
    for value, result in _not_skipped(test, cases):
        if len(rest) == 1:
            names = {inputs: _expression(repr(value)), expected: _expression(repr(result))}
            body.append(_without_pytest(_Rename(names).visit(deepcopy(rest[0]))))
        else:
            values = parse(f"{inputs} = {value!r}\n{expected} = {result!r}").body
            body += [*values, *(_without_pytest(deepcopy(node)) for node in rest)]
    return body


def _loop(test: ast.FunctionDef, data: ast.stmt) -> list[ast.stmt]:
    """Return a loop that runs the body of a test over test data that the file computes."""
    names = ", ".join(argument.arg for argument in test.args.args)
    loop = parse(f"for {names} in {_target(data)}: pass").body[0]
    assert isinstance(loop, ast.For)
    loop.body = [_without_pytest(node) for node in test.body if not _skips(node)]
    return [data, loop]


def _is_data(node: ast.stmt, test: ast.FunctionDef) -> bool:
    """Return whether a statement defines the data of a parametrised test."""
    return isinstance(node, ast.Assign) and _target(node) in _names(test.decorator_list[0])


def _target(node: ast.stmt) -> str:
    return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""


def _without_pytest(node: ast.stmt) -> ast.stmt:
    """Return the statement with `pytest.approx(..., abs=...)` written as a comparison."""
    match node:
        case ast.Assert(
            test=ast.Compare(left=left, comparators=[ast.Call(args=[value], keywords=[tolerance]) as call])
        ):
            if ast.unparse(call.func) == "pytest.approx" and tolerance.arg == "abs":
                apart = f"abs({ast.unparse(left)} - {ast.unparse(value)})"
                return parse(f"assert {apart} <= {ast.unparse(tolerance.value)}").body[0]
    return node


def _expression(text: str) -> ast.expr:
    return parse(text, mode="eval").body


def _skips(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any("pytest.skip" in ast.unparse(inner) for inner in node.body)


def _not_skipped(test: ast.FunctionDef, cases: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    skipped = []
    for node in test.body:
        if isinstance(node, ast.If) and _skips(node):
            compares = [child for child in ast.walk(node.test) if isinstance(child, ast.Compare)]
            skipped += [ast.literal_eval(compare.comparators[0]) for compare in compares]
    return [(value, result) for value, result in cases if value not in skipped]


def _call_candidate(tree: ast.Module, entry_point: str) -> ast.Module:
    return _Rename({entry_point: ast.Name(CANDIDATE, ast.Load())}).visit(tree)


def _defines(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
