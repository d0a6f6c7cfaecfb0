"""Finds the symptom of a bug: a short snippet with different results with and without the bug.

Snippets come from the failing tests, get other values, and run on the faulty and on the right tree. The result on the
right tree is the expected one. The best snippet whose results differ is made as short as possible and run again with
other hashes.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym.base.syntax import parse
from agentgym.envs.swe.building.probe import QUICK_S, SnippetProbe, SnippetResult
from agentgym.envs.swe.building.reading_tests import snippets_of
from agentgym.envs.swe.building.runner import Conditions, TestRunner
from agentgym.envs.swe.building.snippet import Snippet
from agentgym.envs.swe.building.vary import literals_of, variants
from agentgym.tasks.swe.instance import file_of
from agentgym.tasks.swe.package import Package

MIN_REVEALING = 8
"""Shorter lines of a fix (`else:`, `break`) reveal nothing and may appear by chance."""


@dataclass(frozen=True)
class IssueSecrets:
    """Facts that a text must not reveal."""

    gold_lines: Collection[str]
    """Lines that the fix adds or removes."""
    functions: Collection[str]
    """Names of the functions that have the bugs."""
    paths: Collection[str]
    """Their files."""


def reveals_secret(text: str, secrets: IssueSecrets, allowed: str = "") -> bool:
    """Whether a text reveals a secret.

    Args:
        text: The text.
        secrets: Facts that it must not reveal.
        allowed: Code of a user; function names in it may be used.
    """
    lines = {line.strip() for line in secrets.gold_lines}
    if any(len(line) >= MIN_REVEALING and line in text for line in lines):
        return True
    user_words = set(re.findall(r"\w+", allowed))
    names = {function.rpartition(".")[2] for function in secrets.functions} - user_words
    if any(name and re.search(rf"\b{re.escape(name)}\b", text) for name in names):
        return True
    files = {path.rpartition("/")[2] for path in secrets.paths} - {"__init__.py"}
    return any(file in text for file in files)


_MOST = 40
_PARTS = ("elts", "keywords", "body", "values", "generators")


def shorter(snippet: Snippet) -> Iterator[Snippet]:
    """Yield the snippets that lack one statement, one element of a list, or one keyword of a call."""
    for place in range(len(snippet.setup)):
        yield snippet.but([*snippet.setup[:place], *snippet.setup[place + 1 :]])
    yield from _put_in(snippet)
    for number in range(_MOST):
        setup, last = copy.deepcopy((snippet.setup, snippet.last))
        if not _delete_part(list(setup), last, number):
            return
        yield snippet.but(setup, last)


def _delete_part(setup: list[ast.stmt], last: ast.expr, number: int) -> bool:
    """Delete the part with a number, counted through the code, in place; return whether it exists."""
    for item in [*setup, last]:
        for node in ast.walk(item):
            for parts in _lists(node):
                if number < len(parts):
                    del parts[number]
                    if isinstance(node, ast.Dict):
                        del node.keys[number]
                    return True
                number -= len(parts)
    return False


def _lists(node: ast.AST) -> Iterator[list[ast.AST]]:
    """Yield the lists of a node whose items may be deleted."""
    if isinstance(node, ast.List | ast.Set | ast.Tuple) and len(node.elts) > 1 + isinstance(node, ast.Tuple):
        yield node.elts  # type: ignore[misc]
    elif isinstance(node, ast.Dict) and len(node.values) > 1:
        yield node.values  # type: ignore[misc]
    elif isinstance(node, ast.Call) and node.keywords:
        yield node.keywords  # type: ignore[misc]
    elif isinstance(node, ast.For | ast.With | ast.FunctionDef | ast.AsyncFunctionDef) and len(node.body) > 1:
        yield node.body  # type: ignore[misc]


def _put_in(snippet: Snippet) -> Iterator[Snippet]:
    """Yield the snippet with a name that is used once replaced by its value."""
    for place, item in enumerate(snippet.setup):
        if not isinstance(item, ast.Assign) or not isinstance(item.targets[0], ast.Name) or len(item.targets) > 1:
            continue
        if ast.unparse(item.value) in ("[]", "{}", "set()"):  # made to be filled
            continue
        name, rest = item.targets[0].id, snippet.but(snippet.setup[place + 1 :])
        uses = [node for node in rest.walk() if isinstance(node, ast.Name) and node.id == name]
        if len(uses) != 1 or not isinstance(uses[0].ctx, ast.Load) or len(ast.unparse(item.value)) > 60:
            continue
        put = _Put(name, item.value)
        after = [put.visit(copy.deepcopy(statement)) for statement in rest.setup]
        yield snippet.but([*snippet.setup[:place], *after], put.visit(copy.deepcopy(rest.last)))


class _Put(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr):
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._value) if node.id == self._name else node


RIGHT, FAULTY = "right", "faulty"
_MAX_TESTS = 8
_MAX_SNIPPETS = 120
_MAX_BASES = 5
_VARIANTS = 20
_SLOW_VARIANTS = 2
_SLOW_BASES = 2
_ROUNDS = 8
_LONG_CODE = 700
_OTHER_HASHES = (Conditions(hash_seed=11), Conditions(hash_seed=12))


_NOTHING = (SnippetResult(), SnippetResult())


@dataclass(frozen=True)
class Symptom:
    """A snippet that shows a bug."""

    snippet: Snippet
    expected: SnippetResult
    """Its result without the bug."""
    got: SnippetResult
    """Its result with the bug."""
    masked: bool = False
    """Whether another bug of the task changes its result."""
    fresh: bool = False
    """Whether no failing test checks for this expected result, so that hard-coding it passes none."""


@dataclass(frozen=True)
class Trees:
    """The trees of one package whose results a symptom compares."""

    package: Package
    faulty: Mapping[str, bytes]
    """With all bugs of the task."""
    alone: Mapping[str, bytes]
    """With only the bug of the symptom."""

    def probe(self, run_tests: TestRunner, imports: Sequence[str]) -> SnippetProbe:
        """Return a probe that runs snippets on the trees."""
        trees = {RIGHT: self.package.files, FAULTY: self.faulty}
        if self.alone != self.faulty:
            trees["alone"] = self.alone
        own = {side: {path: data for path, data in files.items() if path not in self.package.test_files}
               for side, files in trees.items()}  # fmt: skip
        return SnippetProbe(run_tests, own, self.package.python_path, imports)


def find_symptom(
    trees: Trees, path: str, tests: Collection[str], run_tests: TestRunner, secrets: IssueSecrets, rng: random.Random
) -> Symptom | None:
    """Return a symptom of a bug, or `None` if no snippet shows one.

    Args:
        trees: The trees to compare.
        path: The file of the bug.
        tests: The tests that fail because of it.
        run_tests: Runs the snippets, confined as the package's tests are.
        secrets: Facts that must not be shown.
        rng: Chooses values and snippets.
    """
    package = trees.package
    name = package.import_name(path).partition(".")[0]
    probe = trees.probe(run_tests, [name])
    candidates = [Symptom(item, *_NOTHING) for item in _read(package, name, tests)]
    distinguishing = [item for item in _first_distinguishing(probe, candidates) if _may_be_shown(item, secrets)]
    bases = sorted(distinguishing, key=_rank)[:_MAX_BASES]
    if bases and bases[0].got.slow:
        bases = bases[:_SLOW_BASES]
    else:
        probe = replace(probe, seconds=QUICK_S)
    expected_looks = {item.expected.looks for item in distinguishing}
    texts = [text for test in tests for text in literals_of(package.source(file_of(test)))]
    pairs = [pair for base in bases for pair in _with_variants(base, list(dict.fromkeys(texts)), rng)]
    similar = [item for item in _like(probe, pairs, expected_looks) if _may_be_shown(item, secrets)]
    for item in [*sorted(similar, key=_rank)[:4], *bases[:3]]:
        short = _shortened(probe, item, expected_looks)
        if short.snippet.is_public and all(_same(probe, short, conditions) for conditions in _OTHER_HASHES):
            return short
    return None


def _with_variants(base: Symptom, texts: Sequence[str], rng: random.Random) -> list[tuple[Symptom, Symptom]]:
    """Return a symptom paired with each of its variants, which have no results yet."""
    count = _SLOW_VARIANTS if base.got.slow else _VARIANTS
    return [(base, Symptom(item, *_NOTHING)) for item in variants(base.snippet, texts, count, rng)]


def _may_be_shown(item: Symptom, secrets: IssueSecrets) -> bool:
    texts = [text for result in (item.expected, item.got) for text in (result.repr, result.str, result.printed)]
    return not reveals_secret("\n".join([item.snippet.code, *texts]), secrets, item.snippet.code)


def exports(package: Package, name: str) -> tuple[str, ...]:
    """Return the names that a package's `__init__` imports."""
    paths = [path for path in package.files if path.endswith(f"{name}/__init__.py")]
    try:
        items = [item for path in paths for item in parse(package.source(path)).body]
    except (SyntaxError, UnicodeDecodeError):
        return ()
    return tuple(
        alias.asname or alias.name for item in items if isinstance(item, ast.ImportFrom) for alias in item.names
    )


def _read(package: Package, name: str, tests: Collection[str]) -> list[Snippet]:
    """Return the snippets of tests, each once."""
    functions = sorted({test.partition("[")[0] for test in tests}, key=lambda test: (len(test), test))[:_MAX_TESTS]
    public = exports(package, name)
    snippets = [item for test in functions for item in snippets_of(test, package.source(file_of(test)), public, name)]
    return list({item.code: item for item in snippets if len(item.code) <= _LONG_CODE}.values())[:_MAX_SNIPPETS]


def _first_distinguishing(probe: SnippetProbe, candidates: Sequence[Symptom]) -> list[Symptom]:
    """Return the snippets whose results differ between the trees; shorter ones, if another bug stops all of them."""
    for _ in range(_ROUNDS):
        distinguishing = list(_probed(probe, candidates))
        if distinguishing or len(probe.trees) == 2:
            return distinguishing
        others = [short for item in candidates for short in (_bare(item.snippet), *shorter(item.snippet))]
        by_code = {snippet.code: Symptom(snippet, *_NOTHING) for snippet in others}
        candidates = sorted(by_code.values(), key=lambda item: len(item.snippet.code))[:_MAX_SNIPPETS]
    return []


def _probed(probe: SnippetProbe, candidates: Sequence[Symptom]) -> Iterator[Symptom]:
    """Yield the candidates whose results differ between the trees, with the results."""
    results = probe([(item.snippet.before, item.snippet.end) for item in candidates])
    for item, sides in zip(candidates, results, strict=True):
        right, faulty = _quieted(sides[RIGHT], sides[FAULTY]), sides[FAULTY]
        others = [shown_by for side, shown_by in sides.items() if side != RIGHT]
        if right and faulty and all(other is not None and _differ_visibly(right, other) for other in others):
            masked = any(other is not None and other.looks != faulty.looks for other in others)
            yield replace(item, expected=right, got=faulty, masked=masked)


def _bare(snippet: Snippet) -> Snippet:
    """Return a snippet without the statements that only have effects."""
    return snippet.but(item for item in snippet.setup if not isinstance(item, ast.Expr))


def _quieted(right: SnippetResult | None, faulty: SnippetResult | None) -> SnippetResult | None:
    """Return the expected result, without its value if only the error of the faulty tree can be shown."""
    if right is None or faulty is None or right.raised or not faulty.raised or (right.steady and right.repr):
        return right
    return replace(right, repr="", str="", printed="")


def _differ_visibly(right: SnippetResult, faulty: SnippetResult) -> bool:
    """Whether a user sees a difference, and neither only a mistake of the snippet nor something accidental."""
    if not (right.steady or right.quiet) or not faulty.steady or right.looks == faulty.looks:
        return False
    if "setup" in (right.where, faulty.where):  # another snippet ends there
        return False
    if not faulty.raised and not all(result.raised or result.repr for result in (right, faulty)):
        return False
    return right.raised not in ("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "UnboundLocalError")


def _like(
    probe: SnippetProbe, pairs: Sequence[tuple[Symptom, Symptom]], expected_looks: Collection[tuple[str, ...]]
) -> Iterator[Symptom]:
    """Yield variants that show the same kind of difference as their originals."""
    bases = {item.snippet.code: base for base, item in pairs}
    for item in _probed(probe, [item for _, item in pairs]):
        base = bases[item.snippet.code]
        if _kind(item.expected) == _kind(base.expected) and _kind(item.got) == _kind(base.got):
            yield replace(item, fresh=item.expected.looks not in expected_looks)


def _kind(result: SnippetResult) -> tuple[object, ...]:
    """Return the kind of a result, which does not depend on values: an error with its wording, or a type."""
    if result.raised:
        return result.raised, result.where, re.sub(r"'[^']*'|\"[^\"]*\"|\d+|\b\w\b", "", result.message)
    return result.type, result.repr in ("None", "[]", "()", "{}", "''", "set()", "0", "True", "False") and result.repr


def _rank(item: Symptom) -> tuple[object, ...]:
    """Return a key that sorts the symptoms that make the best issues first."""
    code = item.snippet.code
    size = len(code) + len("".join(item.expected.looks)) + len("".join(item.got.looks))
    unseen = not item.expected.raised and not item.expected.repr and not item.expected.printed
    return (
        isinstance(item.snippet.last, ast.Compare) and item.expected.type == "bool",
        item.masked,
        item.got.slow,
        not item.snippet.is_public,
        _from_submodule(item.snippet), not item.fresh, unseen,
        "def " in code or "class " in code, size, code,
    )  # fmt: skip


def _from_submodule(snippet: Snippet) -> bool:
    return bool(re.search(r"^from \w+\.\w+", snippet.header, re.MULTILINE))


def _shortened(probe: SnippetProbe, item: Symptom, expected_looks: Collection[tuple[str, ...]]) -> Symptom:
    """Return a symptom without the parts that it does not need."""
    for _ in range(0 if item.got.slow else _ROUNDS):
        candidates = [replace(item, snippet=shorter_snippet) for shorter_snippet in shorter(item.snippet)]
        same_symptoms = [other for other in _probed(probe, candidates) if _stays(item, other, expected_looks)]
        if not same_symptoms:
            break
        item = min(same_symptoms, key=lambda other: len(other.snippet.code))
    return item


def _stays(item: Symptom, other: Symptom, expected_looks: Collection[tuple[str, ...]]) -> bool:
    kinds = (_kind(item.expected), _kind(item.got), item.masked)
    if kinds != (_kind(other.expected), _kind(other.got), other.masked):
        return False
    if item.expected.raised and item.expected.message != other.expected.message:
        return False
    if _keywords(item.snippet) != _keywords(other.snippet) and item.expected.looks != other.expected.looks:
        return False  # without an option, it would be about something else
    return not item.fresh or other.expected.looks not in expected_looks


def _keywords(snippet: Snippet) -> int:
    return sum(isinstance(node, ast.keyword) for node in snippet.walk())


def _same(probe: SnippetProbe, item: Symptom, conditions: Conditions) -> bool:
    """Whether a symptom shows the same under other conditions."""
    sides = probe([(item.snippet.before, item.snippet.end)], conditions)[0]
    right, faulty = _quieted(sides[RIGHT], sides[FAULTY]), sides[FAULTY]
    if right is None or faulty is None:
        return False
    return (right.looks, faulty.looks) == (item.expected.looks, item.got.looks)
