"""Chooses a parser and reads a log with it. No content of a log makes it raise."""

from __future__ import annotations

import re
from collections.abc import Callable

from agentgym.choices import nearest
from agentgym.errors import UsageError
from agentgym.tasks.swe.logs import ids
from agentgym.tasks.swe.logs.documents import read_go_json, read_jest_json, read_junit
from agentgym.tasks.swe.logs.lines import read_lines
from agentgym.tasks.swe.logs.status import Status, record
from agentgym.tasks.swe.logs.table import Parser, aliases, parsers
from agentgym.tasks.swe.logs.trees import read_tap, read_tree
from agentgym.tasks.swe.logs.unittest import read_unittest

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
