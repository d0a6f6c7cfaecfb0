"""The statuses of tests, and which of two reports about a test counts."""

from __future__ import annotations

from enum import StrEnum


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
