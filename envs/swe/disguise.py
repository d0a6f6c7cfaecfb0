"""A test module as it goes into one process: every test in one form only, under a temporary name.

No process holds a test and a copy of it, and no name, docstring, comment or line says whether a test is
true or changed.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from agentgym.base.syntax import parse
from agentgym.envs.swe.ids import Function, NodeId, TestFunction, test_functions
from agentgym.envs.swe.perturb import FunctionChange, change


@dataclass(frozen=True)
class DisguisedModule:
    """A test module as one process sees it, and the key to it, which stays with the grader."""

    text: str
    names: Mapping[str, str]
    """New names of the functions that have one."""

    def hidden(self, test: str) -> str:
        """Return the id of a test in the sandbox."""
        parts = NodeId.of(test)
        return str(NodeId(parts.path, parts.scope, self.names.get(parts.name, parts.name), parts.case))


def disguised(
    path: str, source: str, changes: Collection[FunctionChange], rng: random.Random, *, rename: bool = True
) -> DisguisedModule:
    """Return a module with some of its tests changed, and all of them renamed.

    Args:
        path: The module's path, which its ids begin with.
        source: Its text.
        changes: What to change; changes of other modules are left out.
        rng: Chooses names; must be new and unpredictable for every process.
        rename: Give the tests new names.
    """
    module = parse(source)
    functions = list(test_functions(module))
    by_place = {(path, function.scope, function.node.name): function for function in functions}
    for place in {edited.place for edited in changes} & by_place.keys():
        change(by_place[place].node, [edit for edited in changes if edited.place == place for edit in edited.edits])
    for function in functions:
        _drop_docstring(function.node)
    names = _new_names(module, functions, rng) if rename else {}
    for function in functions:
        function.node.name = names.get(function.node.name, function.node.name)
    return DisguisedModule(ast.unparse(module), names)


@lru_cache(64)
def functions_of(source: str) -> Mapping[tuple[str, str], Function]:
    """Return the test functions by scope and name; of several definitions the last counts, as in Python."""
    return {(function.scope, function.node.name): function.node for function in test_functions(parse(source))}


def _drop_docstring(node: Function) -> None:
    first = node.body[0]
    if len(node.body) > 1 and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        del node.body[0]


def _new_names(module: ast.Module, functions: Sequence[TestFunction], rng: random.Random) -> dict[str, str]:
    """Return new names for all tests that nothing in the module refers to by name."""
    referenced = set(map(_referenced, ast.walk(module)))
    # unittest runs tests in the order of their names, which must stay as it was.
    ordered = sorted({function.node.name for function in functions})
    ranks = {function.node.name: ordered.index(function.node.name) for function in functions if function.inherits}
    used_names = set(ordered)
    return {name: _random_name(ranks.get(name), used_names, rng) for name in ordered if name not in referenced}


def _referenced(node: ast.AST) -> str:
    """Return the name that a node uses, or a text that may be a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _random_name(rank: int | None, used_names: set[str], rng: random.Random) -> str:
    order = "" if rank is None else f"{rank:04d}_"
    while True:
        name = f"test_{order}{rng.randrange(16**8):08x}"
        if name not in used_names:
            used_names.add(name)
            return name
