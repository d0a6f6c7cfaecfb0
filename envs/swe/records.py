"""Reads the report of the runner inside the sandbox: only signed, ordered and consistent records count.

A record that an honest run could not have written counts as tampering; a missing one means that the run is unfinished.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field

from agentgym.envs.swe.inside import END, TEST, UNCOLLECTED
from agentgym.envs.swe.notes import ComparisonNote, read_notes

PASSED, FAILED, ERROR, SKIPPED, XFAILED, XPASSED = "passed", "failed", "error", "skipped", "xfailed", "xpassed"
_OBSERVED = {"p", "f", "s", "x", "-"}
_REPORTED = {"passed", "failed", "skipped", "xpassed", "xskipped", "xfailed", "-"}


@dataclass
class Records:
    """The reported results of a run."""

    statuses: dict[str, str] = field(default_factory=dict)
    """Id of each test, as the sandbox knows it, to its status."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Id to the number of the test among the cases of its function."""
    lines: dict[str, str] = field(default_factory=dict)
    """Id of a failed test to the failing lines of its file."""
    notes: dict[str, tuple[ComparisonNote, ...]] = field(default_factory=dict)
    """Id to the values that were compared with withheld ones."""
    uncollected: dict[str, str] = field(default_factory=dict)
    """Files that could not be collected, and why."""
    tampered: list[str] = field(default_factory=list)
    """Findings that an honest run cannot report."""
    exit_code: int | None = None
    """The final exit code of the run; `None` if it did not finish."""

    @property
    def failed(self) -> bool:
        """Whether some test did not pass, which pytest must have reported."""
        bad = (FAILED, ERROR)
        return bool(self.uncollected) or any(status in bad for status in self.statuses.values())


def read_records(reply: bytes, key: bytes) -> Records:
    """Read the reply of a run that was given `key`."""
    records = Records()
    *lines, rest = reply.split(b"\n")
    for number, line in enumerate(lines):
        if records.exit_code is not None:
            records.tampered.append("a record after the last")
            break
        content, _, signature = line.rpartition(b"\t")
        right = hmac.new(key, content, hashlib.sha256).hexdigest().encode()
        parts = content.decode("ascii", "replace").split("\t")
        if not hmac.compare_digest(signature, right) or parts[0] != str(number):
            records.tampered.append(f"record {number} is not signed")
            break
        try:
            _add_record(records, parts[1], parts[2:])
        except (ValueError, IndexError, binascii.Error):
            records.tampered.append(f"record {number} is malformed")
            break
    if rest and not records.tampered and records.exit_code is not None:
        records.tampered.append("a record after the last")
    return records


def _add_record(records: Records, kind: str, parts: list[str]) -> None:
    if kind == END:
        records.exit_code = int(parts[0])
    elif kind == UNCOLLECTED:
        records.uncollected[_unpacked(parts[0])] = _unpacked(parts[1])
    elif kind == TEST:
        test, letters, words = _unpacked(parts[0]), parts[2], parts[3].split(",")
        if test in records.statuses:
            records.tampered.append("a test was reported twice")
        records.numbers[test], records.lines[test] = int(parts[1]), parts[4]
        records.notes[test] = read_notes(_unpacked(parts[5]))
        records.statuses[test] = status_of(letters, words, records.tampered)
    else:
        raise ValueError(kind)


def status_of(letters: str, words: list[str], tampered: list[str]) -> str:
    """Return a test's status from the observed outcomes of its three phases and those that pytest reports.

    Args:
        letters: Observed: `p` no exception, `f` an exception, `s` a skip, `x` an expected failure, `-` never run.
        words: Reported: pytest's outcome of each, with an `x` before it if the test was marked to fail.
        tampered: Receives a line if the two contradict each other.
    """
    if len(letters) != 3 or len(words) != 3 or not set(letters) <= _OBSERVED or not set(words) <= _REPORTED:
        raise ValueError(letters)
    for observed, reported in zip(letters, words, strict=True):
        if observed == "f" and reported in ("passed", "skipped"):
            tampered.append(f"pytest reported {reported!r} for a test that was seen to fail")
    if any(word.startswith("x") for word in words):
        return XFAILED if "xskipped" in words else XPASSED if "xpassed" in words else FAILED
    if letters[0] == "f" or letters[2] == "f" or words[0] == "failed" or words[2] == "failed":
        return ERROR
    if letters[1] == "f" or words[1] == "failed":
        return FAILED
    if "s" in letters or "skipped" in words or "x" in letters:
        return SKIPPED
    return PASSED if letters == "ppp" and words == ["passed"] * 3 else ERROR


def _unpacked(text: str) -> str:
    return base64.b64decode(text, validate=True).decode("utf-8", "replace")
