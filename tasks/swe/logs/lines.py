"""Readers of tools that print one line per test, by the rules of the table."""

from __future__ import annotations

from agentgym.tasks.swe.logs.status import Status, record
from agentgym.tasks.swe.logs.table import Parser, Rule

MAX_LINE = 8192
"""Longer lines are output of the tests, not reports about them."""


def read_lines(parser: Parser, text: str) -> dict[str, Status]:
    """Read a log line by line; the first rule that fits a line counts."""
    results: dict[str, Status] = {}
    title = ""
    for line in text.split("\n"):
        if len(line) > MAX_LINE:
            continue
        header = parser.header.match(line) if parser.header is not None and line.startswith("=") else None
        if header is not None:
            title = header.group("title")
            continue
        if parser.hint is None or parser.hint.search(line):
            _read_line(parser, title, line.rstrip(), results)
    return results


def _read_line(parser: Parser, title: str, line: str, results: dict[str, Status]) -> None:
    for rule in parser.rules:
        # Before the first title every line counts: logs are often cut at the top.
        if rule.section is not None and title and not rule.section.search(title):
            continue
        test_id, word = _match(rule, line) if rule.match is not None else _split(rule, line)
        status = rule.status or parser.words.get(word)
        if test_id and status is not None and rule.needs in test_id:
            record(results, test_id, status)
            return


def _match(rule: Rule, line: str) -> tuple[str, str]:
    match = rule.match.match(line) if rule.match is not None else None
    if match is None:
        return "", ""
    word = "" if rule.status is not None else match.group("status")
    return _cut(match.group("id"), rule.cut), word


def _split(rule: Rule, line: str) -> tuple[str, str]:
    """Find the status after an id; similar words inside the brackets of a parametrised id do not count."""
    bracket = line.find("[")
    for match in rule.before.finditer(line) if rule.before is not None else ():
        if not -1 < bracket < match.start() or line[match.start() - 1] == "]":
            return line[: match.start()], match.group("status")
    return "", ""


def _cut(test_id: str, separator: str) -> str:
    """Cut the id at the first separator that is not inside its brackets."""
    at = test_id.find(separator) if separator else -1
    bracket = test_id.find("[")
    while at != -1:
        if not -1 < bracket < at or test_id[at - 1] == "]":
            return test_id[:at]
        at = test_id.find(separator, at + 1)
    return test_id
