"""The table of parsers, read from `data/parsers.yaml` and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from agentgym.tasks.swe.logs.status import Status


@dataclass(frozen=True)
class Rule:
    """One kind of line that reports a test."""

    match: re.Pattern[str] | None = None
    """Whole-line form with the groups `id` and, unless fixed, `status`."""
    before: re.Pattern[str] | None = None
    """Alternatively: the text after the id, with the group `status`; the first match after a complete id counts."""
    status: Status | None = None
    """The status, if the line has no word for it."""
    cut: str = ""
    """Separator that ends the id: a message or a reason follows."""
    section: re.Pattern[str] | None = None
    """The rule applies only in sections whose title this matches."""
    needs: str = ""
    """The rule applies only to ids that contain this."""


@dataclass(frozen=True)
class Parser:
    """How to read the output of one tool."""

    name: str
    reader: str
    rules: tuple[Rule, ...] = ()
    words: dict[str, Status] = field(default_factory=dict)
    """The tool's words and symbols for each status."""
    hint: re.Pattern[str] | None = None
    """A pattern in every line that a rule can match: other lines are skipped quickly."""
    header: re.Pattern[str] | None = None
    """A line that begins a section, with the group `title`."""
    tidy: tuple[str, ...] = ()
    """Names of the functions that normalise the ids."""
    flat: bool = False
    """Ids are only the names of the tests, without file and suites."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the particular reader."""


@cache
def parsers() -> dict[str, Parser]:
    """Return the parsers by name."""
    return {name: _parser(name, entry) for name, entry in _data()["parsers"].items()}


@cache
def aliases() -> dict[str, str]:
    """Return the names that other projects use, mapped to ours."""
    return dict(_data()["aliases"])


@cache
def _data() -> dict[str, Any]:
    return yaml.safe_load((Path(__file__).parent / "data" / "parsers.yaml").read_text(encoding="utf-8"))


def _parser(name: str, entry: dict[str, Any]) -> Parser:
    if "like" in entry:
        entry = {**_data()["parsers"][entry["like"]], **entry}
    arguments = {
        "reader": entry["reader"],
        "rules": tuple(_rule(rule) for rule in entry.get("rules", ())),
        "words": {str(word): Status(status) for word, status in entry.get("words", {}).items()},
        "hint": _pattern(entry.get("hint")),
        "header": _pattern(entry.get("header")),
        "tidy": tuple(entry.get("tidy", ())),
        "flat": entry.get("flat", False),
    }
    options = {key: value for key, value in entry.items() if key not in arguments and key != "like"}
    return Parser(name, **arguments, options=options)


def _rule(entry: dict[str, Any]) -> Rule:
    patterns = {key: _pattern(entry.get(key)) for key in ("match", "before", "section")}
    status = Status(entry["status"]) if "status" in entry else None
    return Rule(**patterns, status=status, cut=entry.get("cut", ""), needs=entry.get("needs", ""))


def _pattern(text: str | None) -> re.Pattern[str] | None:
    return None if text is None else re.compile(text)
