"""Readers of tools that print an indented tree of suites and tests: jest, mocha, node's own runner, and TAP."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentgym.tasks.swe.logs.ids import without_timing
from agentgym.tasks.swe.logs.lines import MAX_LINE
from agentgym.tasks.swe.logs.status import Status, record
from agentgym.tasks.swe.logs.table import Parser

JOINER = " > "
_NUMBERED = re.compile(r"\d+(?=\) )")
_TODO = re.compile(r" # (?P<word>TODO|SKIP)\b.*$", re.IGNORECASE)
_REASON = re.compile(r"(?P<timing> \(\d+(?:\.\d+)?m?s\)) # (?!TODO|SKIP).*$")
_TAP = re.compile(r"^(?P<word>ok|not ok)\b(?: \d+)?(?: -)?(?: (?P<name>\S.*))?$")
_SUBTEST = "# Subtest: "
_XED = {Status.PASSED: Status.XPASSED, Status.FAILED: Status.XFAILED}


@dataclass
class _Tree:
    """The position in the tree: the open suites with their indents."""

    flat: bool
    file: str = ""
    suites: list[tuple[int, str]] = field(default_factory=list)

    def close(self, indent: int) -> None:
        while self.suites and self.suites[-1][0] >= indent:
            self.suites.pop()

    def test_id(self, name: str) -> str:
        parents = [*([self.file] if self.file else []), *(suite for _, suite in self.suites)]
        return name if self.flat else JOINER.join([*parents, name])


def read_tree(parser: Parser, text: str) -> dict[str, Status]:
    """Read a tree whose tests have symbols before their names; the parser's options cover differences of tools."""
    options = parser.options
    file, broken, stop = (
        re.compile(options[key]) if key in options else None for key in ("file", "broken_file", "stop")
    )
    tree, results = _Tree(parser.flat), dict[str, Status]()
    reading = file is None
    for line in text.split("\n"):
        if len(line) > MAX_LINE:
            continue
        begins = file.match(line) if file is not None else None
        if begins is not None:
            tree, reading = _Tree(parser.flat, begins.group("file")), True
        elif broken is not None and tree.file and broken.match(line):
            record(results, tree.file, Status.ERROR)
        elif stop is not None and stop.match(line):
            return results
        elif not line.strip():
            reading = reading and not options.get("until_blank", False)
        elif reading:
            _read_branch(parser, tree, line, results)
    return results


def _read_branch(parser: Parser, tree: _Tree, line: str, results: dict[str, Status]) -> None:
    name = line.lstrip(" ")
    indent = len(line) - len(name)
    if indent < parser.options.get("min_indent", 0):
        return
    mark = "" if _NUMBERED.match(name) is None else ")"
    mark = mark or (name[0] if name[1:2] == " " else "")
    status = parser.words.get(mark)
    suite_mark = parser.options.get("suite_mark", "")
    if status is None:
        if name.startswith(suite_mark):
            tree.close(indent)
            tree.suites.append((indent, name.removeprefix(suite_mark).rstrip()))
        return
    name, status = _test_name(parser, name.partition(" ")[2], status)
    ends_suite = bool(suite_mark) and (indent, name) in tree.suites
    tree.close(indent)
    if not ends_suite:
        record(results, tree.test_id(name), status)


def _test_name(parser: Parser, text: str, status: Status) -> tuple[str, Status]:
    for tail in parser.options.get("mark_tails", ()) if status == Status.SKIPPED else ():
        text = text.removeprefix(tail)
    text = _REASON.sub(r"\g<timing>", text)
    todo = _TODO.search(text)
    if todo is not None:
        text = text[: todo.start()]
        status = _XED.get(status, status) if todo.group("word").upper() == "TODO" else Status.SKIPPED
    return without_timing(text), status


def read_tap(parser: Parser, text: str) -> dict[str, Status]:
    """Read the Test Anything Protocol with the subtests of node; the result of a suite is not a test."""
    results: dict[str, Status] = {}
    tree = _Tree(parser.flat)
    parents: set[tuple[int, str]] = set()
    for line in text.split("\n"):
        if len(line) > MAX_LINE:
            continue
        rest = line.lstrip(" ")
        indent = len(line) - len(rest)
        if rest.startswith(_SUBTEST):
            tree.close(indent)
            parents.update(tree.suites)
            tree.suites.append((indent, rest.removeprefix(_SUBTEST).strip()))
            continue
        match = _TAP.match(rest)
        if match is None or match.group("name") is None:
            continue
        status = Status.PASSED if match.group("word") == "ok" else Status.FAILED
        name, status = _test_name(parser, match.group("name").strip(), status)
        own = (indent, name)
        is_suite = own in tree.suites and own in parents
        tree.close(indent)
        if is_suite:
            parents.discard(own)
        else:
            record(results, tree.test_id(name), status)
    return results
