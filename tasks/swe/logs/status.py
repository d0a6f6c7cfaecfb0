"""The statuses of tests, and which of two reports about a test counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import reduce


class Status(StrEnum):
    """The status of a test."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """It did not run to its end: collection, set-up, tear-down, crash or timeout."""
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    """It failed, as its author expects for now."""
    XPASSED = "xpassed"
    """It passed although its author expects it to fail."""


_ORDER = (Status.PASSED, Status.XPASSED, Status.XFAILED, Status.SKIPPED, Status.FAILED, Status.ERROR)


def worse(first: Status, second: Status) -> Status:
    """Return the one of two reports about a test that counts: no later report can undo a failure."""
    return max(first, second, key=_ORDER.index)


def record(results: dict[str, Status], test_id: str, status: Status) -> None:
    """Add a report to the results."""
    if test_id:
        results[test_id] = worse(results.get(test_id, status), status)


_TIMINGS = (
    re.compile(r"\s?\[\s?\d+(?:\.\d+)?\s?(?:ms|s)\s?\]$", re.IGNORECASE),
    re.compile(r"\s?\(\s?\d+(?:\.\d+)?\s?(?:ms|s)\s?\)$", re.IGNORECASE),
    re.compile(r"\sin\s\d+(?:\.\d+)?\s(?:msec|sec)\b", re.IGNORECASE),
)
_PATH_OPTION = re.compile(r"^([^\[]*)\[(.*)\](.*)$", re.DOTALL)


def without_timing(test_id: str) -> str:
    """Return a test id without the duration that some tools append: `adds (3 ms)`, `adds [0.1s]`."""
    for pattern in _TIMINGS:
        test_id = pattern.sub("", test_id)
    return test_id.strip()


def is_complete(test_id: str) -> bool:
    """Return whether a pytest id is complete: parametrised ids that were cut at a blank lack the last bracket."""
    return "[" not in test_id or test_id.endswith("]")


def look_up(results: Mapping[str, Status], test_id: str, *, prefix: bool = False) -> Status | None:
    """Return the status of a test; `None` if no test with this id was reported.

    Args:
        results: What `parse_log` returned.
        test_id: Id of the test.
        prefix: The id was cut at a blank: it stands for every reported test that continues it, and the worst status
            counts.
    """
    if test_id in results or not prefix:
        return results.get(test_id)
    statuses = [results[name] for name in results if name.startswith(test_id) and name[len(test_id)].isspace()]
    return reduce(worse, statuses) if statuses else None


def junit_id(node_id: str) -> str:
    """Return the id under which the `junit` parser reports a pytest node id: `a/test_b.py::C::t` is `a.test_b.C::t`."""
    path, _, rest = node_id.partition("::")
    head, bracket, parameters = rest.partition("[")
    *classes, name = head.split("::")
    module = path.removesuffix(".py").replace("/", ".")
    return f"{'.'.join([module, *classes])}::{name}{bracket}{parameters}"


def shorten_path_option(test_id: str) -> str:
    """Return the id with a parameter that is a path cut to its last part, as SWE-bench reports some projects."""
    match = _PATH_OPTION.match(test_id)
    if match is None or not match.group(2).startswith("/") or match.group(2).startswith("//") or "*" in match.group(2):
        return test_id
    return f"{match.group(1)}[/{match.group(2).rpartition('/')[2]}]"


def number_mouse_buttons(test_id: str) -> str:
    """Return the id with matplotlib's mouse buttons as numbers, as SWE-bench reports them."""
    return test_id.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3")


def without_file(test_id: str) -> str:
    """Return a pytest id as R2E-Gym reports it: without the file, its parts joined by dots."""
    return ".".join(test_id.split("::")[1:]) or test_id
