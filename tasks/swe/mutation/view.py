"""`SourceView`: a module's syntax tree together with its text, for operators that edit the text.

Answers where a node is, what surrounds it, and whether it may be changed. Changes nothing itself.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cached_property

from agentgym.base.syntax import parse
from agentgym.tasks.swe.mutation.model import Edit

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_FIXED_NAMES = re.compile(r"^(__\w+__|_?version(_info)?|_?VERSION\w*|__slots__)$", re.IGNORECASE)
_TYPE_MAKERS = {"TypeVar", "ParamSpec", "NewType", "TypeVarTuple", "NamedTuple", "namedtuple", "cast"}
_FIXED_TESTS = ("sys.version_info", "TYPE_CHECKING", "__name__", "sys.platform", "os.name", "PY2", "PY3", "PYPY")


class SourceView:
    """One module. Raises `SyntaxError` if the source is not Python."""

    def __init__(self, source: str):
        self.source = source
        self.tree = parse(source)
        self._line_starts = [0]
        for line in source.split("\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)
        self._lines = source.split("\n")
        self.parents: dict[ast.AST, ast.AST] = {}
        self._qualnames: dict[ast.AST, str] = {}
        self._frozen: set[ast.AST] = set()
        self._visit(self.tree, "", None, frozen=False)

    def _visit(self, node: ast.AST, scope: str, function: FunctionNode | None, *, frozen: bool) -> None:
        """Walk the tree once to record parents, enclosing functions, and nodes that must not change."""
        for name, child in _children(node):
            self.parents[child] = node
            stays = frozen or name in ("annotation", "returns", "decorator_list") or _is_fixed(node, name, child)
            inner, inner_scope = function, scope
            if isinstance(child, FunctionNode):
                inner, inner_scope = child, f"{scope}{child.name}.<locals>."
                self._qualnames[child] = scope + child.name
            elif isinstance(child, ast.ClassDef):
                inner, inner_scope = None, f"{scope}{child.name}."
            if stays:
                self._frozen.add(child)
            self._visit(child, inner_scope, inner, frozen=stays)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield the nodes that may be changed, in the order of the text."""
        changeable = [node for node in ast.walk(self.tree) if hasattr(node, "lineno") and node not in self._frozen]
        yield from sorted(changeable, key=lambda node: (*self.span(node), type(node).__name__))

    def is_frozen(self, node: ast.AST) -> bool:
        """Whether the node belongs to an annotation, docstring, decorator or the like."""
        return node in self._frozen

    def offset(self, line: int, column: int) -> int:
        """Return the index in the text of a line (from 1) and a column in UTF-8 bytes, as `ast` has them."""
        text = self._lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self._line_starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the start and end of the node's text, without surrounding parentheses."""
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """Return the node's text."""
        start, end = self.span(node)
        return self.source[start:end]

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that replaces the node with `text`."""
        return Edit(*self.span(node), text)

    def function(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function whose body the node belongs to."""
        below, here = node, self.parents.get(node)
        while here is not None:
            # Defaults and decorators of a function are evaluated outside of it.
            if isinstance(here, FunctionNode) and below in here.body:
                return here
            below, here = here, self.parents.get(here)
        return None

    def qualname(self, node: ast.AST) -> str:
        """Return the qualified name of the function around (or at) the node, or an empty string."""
        function = node if isinstance(node, FunctionNode) else self.function(node)
        return self._qualnames[function] if function is not None else ""

    def block(self, statement: ast.AST) -> list[ast.stmt]:
        """Return the list of statements that the statement belongs to."""
        parent = self.parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return []

    def indent(self, statement: ast.stmt) -> str:
        """Return the white space before the statement, or an empty string if it does not begin its line."""
        text = self._lines[statement.lineno - 1][: statement.col_offset]
        return text if not text.strip() else ""

    def alone_on_lines(self, statement: ast.stmt) -> bool:
        """Whether only white space and a comment share the statement's lines."""
        before = self._lines[statement.lineno - 1].encode()[: statement.col_offset].decode()
        last = self._lines[(statement.end_lineno or statement.lineno) - 1]
        after = last.encode()[statement.end_col_offset :].decode().strip()
        return not before.strip() and (not after or after.startswith("#"))

    def line_span(self, first: ast.stmt, last: ast.stmt) -> tuple[int, int]:
        """Return the start and end of the lines from one statement to another, including the last line break."""
        end = self._line_starts[last.end_lineno or last.lineno]
        return self._line_starts[first.lineno - 1], min(end, len(self.source))

    def remove(self, statement: ast.stmt) -> list[Edit]:
        """Return the edits that remove a statement; `pass` replaces it where the block would be empty."""
        if not self.alone_on_lines(statement):
            return []
        if len(self.block(statement)) < 2:
            return [self.replace(statement, "pass")]
        return [Edit(*self.line_span(statement, statement), "")]

    def token(self, start: int, end: int, words: tuple[str, ...]) -> tuple[int, int] | None:
        """Return the position of the operator words between two places, or `None` if it is ambiguous."""
        gap = self.source[start:end]
        if "#" in gap or "\\" in gap:
            return None
        ends = [r"\b" if word[0].isalpha() else "" for word in words]
        pattern = r"\s+".join(f"{side}{re.escape(word)}{side}" for side, word in zip(ends, words, strict=True))
        matches = list(re.finditer(pattern, gap))
        return (start + matches[0].start(), start + matches[0].end()) if len(matches) == 1 else None

    @cached_property
    def excluded_lines(self) -> frozenset[int]:
        """Lines marked as not covered by tests."""
        marked = set()
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type == tokenize.COMMENT and "no cover" in token.string:
                marked.add(token.start[0])
        return frozenset(marked)

    @cached_property
    def _units(self) -> list[tuple[int, int]]:
        """Spans of the smallest parts that parse alone, in whole lines: functions, or else statements."""
        spans: list[tuple[int, int]] = []
        waiting: list[ast.stmt] = list(reversed(self.tree.body))
        while waiting:
            statement = waiting.pop()
            # The lines of a class before, between and after its methods do not parse alone, so it follows them.
            if isinstance(statement, ast.ClassDef):
                waiting += reversed([item for item in statement.body if isinstance(item, FunctionNode | ast.ClassDef)])
            spans.append(self._whole_lines(statement))
        return sorted(spans, key=lambda span: span[1] - span[0])

    def _whole_lines(self, statement: ast.stmt) -> tuple[int, int]:
        first = min([statement.lineno, *(item.lineno for item in getattr(statement, "decorator_list", []))])
        end = self._line_starts[statement.end_lineno or statement.lineno]
        return self._line_starts[first - 1], min(end, len(self.source))

    def unit(self, start: int, end: int) -> tuple[int, int]:
        """Return the smallest part around two positions that parses alone (after `if 1:` where it is indented)."""
        return next((span for span in self._units if span[0] <= start and end <= span[1]), (0, len(self.source)))


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for names and attributes, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child


def _is_fixed(parent: ast.AST, name: str, child: ast.AST) -> bool:
    """Whether changing the child would not make a bug: documentation, typing, versions, scripts."""
    if isinstance(child, ast.Expr):
        return isinstance(child.value, ast.Constant)
    # Python 3.11 gives nodes inside f-strings wrong positions.
    if isinstance(child, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
        return True
    if isinstance(child, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = child.targets if isinstance(child, ast.Assign) else [child.target]
        named = any(isinstance(target, ast.Name) and _FIXED_NAMES.match(target.id) for target in targets)
        return named or (isinstance(child, ast.AnnAssign) and _names(child.annotation, {"TypeAlias"}))
    if isinstance(child, ast.Call):
        return dotted(child.func).rpartition(".")[2] in _TYPE_MAKERS
    if isinstance(child, ast.If):
        return any(word in ast.dump(child.test) or word in _attributes(child.test) for word in _FIXED_TESTS)
    if isinstance(child, FunctionNode):
        return any(dotted(item).rpartition(".")[2] == "overload" for item in child.decorator_list)
    return isinstance(parent, ast.ClassDef) and name == "bases"


def _names(node: ast.AST, names: set[str]) -> bool:
    return any(dotted(item).rpartition(".")[2] in names for item in ast.walk(node))


def _attributes(node: ast.AST) -> set[str]:
    return {dotted(item) for item in ast.walk(node)}
