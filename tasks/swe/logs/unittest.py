"""Reader of Python's unittest with `-v`, and of Django's runner, which prints the same way."""

from __future__ import annotations

import re

from agentgym.tasks.swe.logs.lines import MAX_LINE
from agentgym.tasks.swe.logs.status import Status, record
from agentgym.tasks.swe.logs.table import Parser

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
