"""Chooses a parser and reads a log with it. No content of a log makes it raise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError
from agentgym.tasks.swe.logs import status as ids
from agentgym.tasks.swe.logs.lines import MAX_LINE, read_lines
from agentgym.tasks.swe.logs.status import Status, record, without_timing
from agentgym.tasks.swe.logs.table import Parser, aliases, parsers

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


_TEST = re.compile(r"^ *(?P<id>\w+ \([\w.<>]*\.[\w<>]+\))(?: [(\[].*?)?(?: \.\.\. ?(?P<rest>.*))?$")
_FOOTER = re.compile(r"^(?P<word>FAIL|ERROR|UNEXPECTED SUCCESS): (?P<id>[^\s()]+ \([^()]*\))")
_WORD = re.compile(r"(?:^|\W)(?P<word>ok|OK|FAIL|ERROR|expected failure|unexpected success)$")
_SKIPPED = re.compile(r"(?:^| )skipped ['\"]")
_WORDS = {
    "ok": Status.PASSED,
    "OK": Status.PASSED,
    "FAIL": Status.FAILED,
    "ERROR": Status.ERROR,
    "expected failure": Status.XFAILED,
    "unexpected success": Status.XPASSED,
    "UNEXPECTED SUCCESS": Status.XPASSED,
}
_RULES = ("=" * 70, "-" * 70)


def read_unittest(parser: Parser, text: str) -> dict[str, Status]:
    """Read the output of unittest; a test's own output may appear between its name and the result.

    With the option `docstring_ids` a test with a docstring is reported under its first line too, as SWE-bench does.
    """
    results: dict[str, Status] = {}
    pending = ""
    docstring = ""
    for line in text.split("\n"):
        if len(line) > MAX_LINE or not line.strip():
            continue
        if line in _RULES:
            pending = ""
            continue
        footer = _FOOTER.match(line)
        if footer is not None:
            record(results, footer.group("id"), _WORDS[footer.group("word")])
            continue
        test = _TEST.match(line)
        # A result may have a line of its own; on the line of the name, output may precede it.
        rest: str | None = line if line.rstrip() in _WORDS or line.startswith("skipped ") else None
        if test is not None:
            pending, docstring, rest = test.group("id"), "", test.group("rest")
        elif pending and not docstring and " ... " in line:
            docstring, _, rest = line.partition(" ... ")
        status = _status(rest.rstrip()) if pending and rest else None
        if status is None:
            continue
        record(results, pending, status)
        if docstring and parser.options.get("docstring_ids"):
            record(results, docstring.strip(), status)
        pending = docstring = ""
    return results


def _status(text: str) -> Status | None:
    """Return the status at the end of a line. The list of failures below corrects output that looks like one."""
    word = _WORD.search(text)
    if word is not None:
        return _WORDS[word.group("word")]
    return Status.SKIPPED if _SKIPPED.search(text) else None


_GO = {"pass": Status.PASSED, "fail": Status.FAILED, "skip": Status.SKIPPED}
_JEST = {"passed": Status.PASSED, "failed": Status.FAILED, "pending": Status.SKIPPED, "todo": Status.SKIPPED}
_JUNIT = {"failure": Status.FAILED, "error": Status.ERROR, "skipped": Status.SKIPPED}
_DOCUMENT = re.compile(r"<\?xml|<testsuites?[\s>]")
_MAX_JSON_LINE = 2**20


def read_go_json(parser: Parser, text: str) -> dict[str, Status]:
    """Read events of `go test -json`; ids are `package::Test/sub`. A package that fails without a test is an error."""
    results: dict[str, Status] = {}
    failed: set[str] = set()
    for event in _json_lines(text):
        package, test, status = event.get("Package"), event.get("Test"), _GO.get(str(event.get("Action")))
        if not isinstance(package, str) or status is None:
            continue
        if isinstance(test, str):
            record(results, f"{package}::{test}", status)
            failed |= {package} if status == Status.FAILED else set()
        elif status == Status.FAILED and package not in failed:
            record(results, package, Status.ERROR)
    return results


def read_jest_json(parser: Parser, text: str) -> dict[str, Status]:
    """Read the report of `jest --json` (vitest's has the same form); a file that cannot be run is an error."""
    results: dict[str, Status] = {}
    for report in _json_reports(text):
        for file in _dicts(report.get("testResults")):
            path = file.get("name")
            tests = list(_dicts(file.get("assertionResults")))
            if not tests and file.get("status") == "failed" and isinstance(path, str):
                record(results, path, Status.ERROR)
            for test in tests:
                titles = test.get("ancestorTitles")
                names = [path, *(titles if isinstance(titles, list) else ()), test.get("title")]
                status = _JEST.get(str(test.get("status")), Status.SKIPPED)
                record(results, JOINER.join(name for name in names if isinstance(name, str)), status)
    return results


def read_junit(parser: Parser, text: str) -> dict[str, Status]:
    """Read JUnit's XML; ids are `classname::name`. Tests before a syntax error or a DTD count, none after it."""
    results: dict[str, Status] = {}
    begins = list(_DOCUMENT.finditer(text))
    starts = [match.start() for match in begins if match.group() == "<?xml"] or [match.start() for match in begins[:1]]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
        _JUnit(results).read(text[start:end])
    return results


class _NotAllowed(Exception):
    """The document has a DTD: entities could make it explode or read files."""


class _JUnit:
    def __init__(self, results: dict[str, Status]):
        self._results = results
        self._test: str | None = None
        self._status = Status.PASSED

    def read(self, document: str) -> None:
        parser = expat.ParserCreate("utf-8")
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        try:
            parser.Parse(document.encode("utf-8", "replace"), True)
        except (expat.ExpatError, _NotAllowed, LookupError):
            return

    def _refuse(self, *_: Any) -> None:
        raise _NotAllowed

    def _start(self, tag: str, values: dict[str, str]) -> None:
        if tag == "testcase":
            names = [values.get("classname", ""), values.get("name", "")]
            self._test, self._status = "::".join(name for name in names if name), Status.PASSED
        elif self._test is not None and tag in _JUNIT:
            xfailed = tag == "skipped" and values.get("type") == "pytest.xfail"
            self._status = Status.XFAILED if xfailed else _JUNIT[tag]

    def _end(self, tag: str) -> None:
        if tag == "testcase" and self._test is not None:
            record(self._results, self._test, self._status)
            self._test = None


def _json_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        if not line.startswith("{") or len(line) > _MAX_JSON_LINE:
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _json_reports(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that begin at the start of a line and have results; other output may surround them."""
    at = 0 if text.startswith("{") else text.find("\n{") + 1
    decoder = json.JSONDecoder()
    while text[at : at + 1] == "{":
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            # Retrying inside text that is not JSON could take quadratic time.
            return
        if isinstance(value, dict) and "testResults" in value:
            yield value
        following = text.find("\n{", end)
        at = following + 1 if following != -1 else len(text)


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


Reader = Callable[[Parser, str], dict[str, Status]]

_READERS: dict[str, Reader] = {
    "lines": read_lines,
    "unittest": read_unittest,
    "tree": read_tree,
    "tap": read_tap,
    "go_json": read_go_json,
    "jest_json": read_jest_json,
    "junit": read_junit,
}
_VITEST_TAIL = re.compile(r"(?: \[skipped\])?(?: \d+ ?m?s)?$")
_TIDIERS: dict[str, Callable[[str], str]] = {
    "shorten_path_option": ids.shorten_path_option,
    "number_mouse_buttons": ids.number_mouse_buttons,
    "without_file": ids.without_file,
    "without_vitest_tail": lambda test_id: _VITEST_TAIL.sub("", test_id),
}
# Colours, cursor movements and window titles.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_RETURNS = re.compile(r"\r\n?")


def parser_names() -> tuple[str, ...]:
    """Return the names of the parsers."""
    return tuple(parsers())


def has_parser(name: str) -> bool:
    """Return whether there is a parser of this name, ours or another project's."""
    return aliases().get(name, name) in parsers()


def resolve_parser(name: str) -> str:
    """Return our name of a parser. Raises `UsageError` with a suggestion for an unknown name."""
    ours = aliases().get(name, name)
    if ours not in parsers():
        raise UsageError(
            f"no log parser {name!r}{nearest(name, [*parsers(), *aliases()])} There are: {', '.join(parsers())}"
        )
    return ours


def parse_log(parser: str, text: str, *, root: str = "") -> dict[str, Status]:
    """Return the statuses of the tests in a log, in the order of the log.

    If a test is reported several times, the worst status counts. Garbage gives no results, never an error.

    Args:
        parser: Name of the parser.
        text: The log.
        root: Folder that the paths in test ids are made relative to, for tools that print them absolute.
    """
    spec = parsers()[resolve_parser(parser)]
    raw_results = _READERS[spec.reader](spec, _RETURNS.sub("\n", _ESCAPES.sub("", text)))
    folder = f"{root.rstrip('/')}/" if root else ""
    results: dict[str, Status] = {}
    for test_id, status in raw_results.items():
        tidied = test_id.removeprefix(folder)
        for name in spec.tidy:
            tidied = _TIDIERS[name](tidied)
        record(results, tidied, status)
    return results
