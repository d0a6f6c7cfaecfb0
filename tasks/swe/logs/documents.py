"""Readers of structured reports: `go test -json`, `jest --json` and JUnit's XML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from agentgym.tasks.swe.logs.status import Status, record
from agentgym.tasks.swe.logs.table import Parser
from agentgym.tasks.swe.logs.trees import JOINER

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
