"""Mutation operators: every mutant is a proper bug, and everything else in the text stays as it was."""

from __future__ import annotations

import ast
import random
from itertools import islice

from agentgym.tasks.swe.bundled import repository_files, repository_names
from agentgym.tasks.swe.mutation import (
    OPERATORS,
    apply,
    apply_all,
    combinations,
    invert,
    operator_named,
    sites,
)
from tests.rows import each_row


def mutants(source: str, name: str) -> list[str]:
    return [apply(source, item) for item in sites(source, [operator_named(name)])]


def modules() -> list[tuple[str, str]]:
    return [
        (f"{name}/{path}", data.decode())
        for name in repository_names()
        for path, data in repository_files(name).items()
        if path.endswith(".py") and "test" not in path
    ]


@each_row("path, source", modules())
def test_mutants_parse_differ_and_can_be_undone(path: str, source: str) -> None:
    original, before = ast.dump(ast.parse(source)), source.split("\n")
    mutations = sites(source)
    for mutation in random.Random(path).sample(mutations, min(25, len(mutations))):
        changed = apply(source, mutation)
        assert ast.dump(ast.parse(changed)) != original, mutation
        assert apply(changed, invert(source, mutation)) == source, mutation
        after, rest = changed.split("\n"), len(before) - mutation.last_line
        assert after[: mutation.line - 1] == before[: mutation.line - 1], mutation
        assert after[len(after) - rest :] == before[len(before) - rest :], mutation


def test_every_operator_finds_something_in_the_bundled_repositories() -> None:
    mutations = {mutation.operator for _, source in modules() for mutation in sites(source)}
    assert {operator.name for operator in OPERATORS} == mutations
    assert len(OPERATORS) >= 14


CASES = [
    ("comparison_boundary", "x = 'äöü€' if a < b else 'ß'", ["x = 'äöü€' if a <= b else 'ß'"]),
    ("state_update_removed", "def f(a):\r\n    a.x = 1\r\n    return b\r\n", ["def f(a):\r\n    return b\r\n"]),
    ("comparison_boundary", "x = a < b", ["x = a <= b"]),
    ("comparison_opposite", "x = a not in b", ["x = a in b"]),
    ("none_check_inverted", "x = a is not None", ["x = a is None"]),
    ("arithmetic_operator", "x = (a)  +  b", ["x = (a)  -  b"]),
    ("arithmetic_operator", "x = 'a' + b", []),
    ("augmented_assignment", "x += 1", ["x = 1", "x -= 1"]),
    ("and_or_swapped", "x = a and b and c", ["x = a or b or c"]),
    ("not_removed", "x = not a", ["x = a"]),
    ("constant_off_by_one", "x = f(0)", ["x = f(1)"]),
    ("slice_bound", "x = a[1:n]", ["x = a[:n]", "x = a[2:n]", "x = a[1:]", "x = a[1:n - 1]"]),
    ("loop_bound", "x = range(n + 1)", ["x = range(n)", "x = range(1, n + 1)"]),
    ("default_value", "def f(a, b=True): ...", ["def f(a, b=False): ..."]),
    ("key_constant", "x = d['one'] + d['two']", ["x = d['two'] + d['two']", "x = d['one'] + d['one']"]),
    ("conditional_expression_swapped", "x = a if c else b", ["x = b if c else a"]),
    ("fallback_dropped", "x = a if a is not None else b", ["x = a"]),
    ("arguments_swapped", "f(a, b)", ["f(b, a)"]),
    ("arguments_swapped", "isinstance(a, b)", []),
    ("argument_dropped", "f(a, key=b)", ["f(a)"]),
    ("neighbouring_function", "x = max(a)", ["x = min(a)"]),
    ("sorting_dropped", "x = sorted(a, key=f)", ["x = list(a)"]),
    ("copy_dropped", "x = dict(a)", ["x = a"]),
    ("exception_type", "raise KeyError(a)", ["raise IndexError(a)"]),
    ("loop_skips", "for a in b:\n    f(a)", ["for a in list(b)[1:]:\n    f(a)", "for a in list(b)[:-1]:\n    f(a)"]),
    ("return_too_early", "def f():\n    for a in b:\n        g(a)\n    return a",
     ["def f():\n    for a in b:\n        g(a)\n        return a"]),
    ("guard_removed", "def f(a):\n    if a:\n        raise E\n    return a", ["def f(a):\n    return a"]),
    ("branch_dropped", "if a:\n    b()\nelif c:\n    d()\nelse:\n    e()",
     ["if a:\n    b()\nelse:\n    e()", "if a:\n    b()\nelif c:\n    d()"]),
    ("statements_swapped", "a = f()\nb = a", ["b = a\na = f()"]),
    ("handler_dropped", "try:\n    a()\nexcept E:\n    b()", ["try:\n    a()\nexcept E:\n    raise"]),
    ("state_update_removed", "def f(self):\n    self.a = 1\n    return 2", ["def f(self):\n    return 2"]),
    ("await_removed", "async def f():\n    await g()", ["async def f():\n    g()"]),
    ("wrong_variable", "def f(a, b):\n    return a", ["def f(a, b):\n    return b"]),
]  # fmt: skip


@each_row("name, source, expected", CASES)
def test_operator_makes_the_expected_mutants(name: str, source: str, expected: list[str]) -> None:
    assert mutants(source, name) == expected


@each_row(
    "source",
    [
        '"""Adds 1 and 2."""',
        "def f(a: Literal[1] = ...) -> Literal[2]: ...",
        "__all__ = ['a', 'b']",
        "if sys.version_info >= (3, 11):\n    x = 1",
        "if TYPE_CHECKING:\n    x = 1",
        "@decorate(1)\ndef f(): ...",
        "x = f'{a + 1}'",
        "x = a < b  # pragma: no cover",
    ],
)
def test_code_without_behaviour_is_not_mutated(source: str) -> None:
    assert sites(source) == []


def test_function_is_named_as_code_objects_name_it() -> None:
    source = "class A:\n    def f(self):\n        def g():\n            return a < b\n        return g"
    assert sites(source, [operator_named("comparison_boundary")])[0].function == "A.f.<locals>.g"


def test_combinations_are_of_different_functions() -> None:
    located = [(path, item) for path, source in modules()[3:6] for item in sites(source)]
    for combination in islice(combinations(located, random.Random(0)), 50):
        places = {(path, item.function) for path, item in combination}
        assert 2 <= len(combination) == len(places) <= 4


def test_several_mutations_are_applied_at_once() -> None:
    sources = {"a.py": "x = a < b\ny = c > d\n", "b.py": "z = not e\n"}
    located = [(path, item) for path, source in sources.items() for item in sites(source)]
    selected = [item for item in located if item[1].operator in ("comparison_boundary", "not_removed")]
    assert apply_all(sources, selected) == {"a.py": "x = a <= b\ny = c >= d\n", "b.py": "z = e\n"}
