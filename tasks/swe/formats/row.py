"""One row of a foreign data set, with errors that name its location, and helpers for several formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.tasks.swe.instance import PREFIX_IDS
from agentgym.tasks.swe.logs import has_parser, resolve_parser, without_timing
from agentgym.tasks.swe.logs.status import is_complete

DROPPED_IDS = "dropped_ids"
"""Key in `meta`: entries of the test lists that are not test ids."""
GUESSED_PARSER = "parser_guessed"
"""Key in `meta`: the row does not name its log parser; it was guessed from the language."""

_PROGRESS = re.compile(r"\[\s*\d+%\]")
_TARGET = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
_NOT_TESTS = (".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml", ".rst")
_LANGUAGES = {".py": "python", ".go": "go", ".rs": "rust", ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".java": "java"}
_LANGUAGES |= {".js": "javascript", ".ts": "typescript", ".tsx": "typescript", ".rb": "ruby", ".php": "php"}
_PARSERS = {"python": "pytest", "go": "go", "rust": "cargo", "c": "ctest", "cpp": "ctest"}
_PARSERS |= {"javascript": "jest-flat", "typescript": "jest-flat"}


@dataclass(frozen=True)
class DataSetRow:
    """The fields of a row and its location."""

    where: str
    """File and line (or number in the list), for messages."""
    fields: Mapping[str, Any]

    def error(self, message: str) -> UsageError:
        """Return an error that names the location of the row."""
        return UsageError(f"{self.where}: {message}")

    def text(self, *names: str, default: str | None = None) -> str:
        """Return the first of the named fields that holds text. Raises `UsageError` if none does, without `default`."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value:
                return value
        if default is not None:
            return default
        raise self.error(f"no text under {' or '.join(map(repr, names))}; the row has {sorted(self.fields)}")

    def data(self, name: str) -> Any:
        """Return a field that may be JSON or a JSON string; `None` if it is missing or empty."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        try:
            return json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            raise self.error(f"{name!r} is a string but not JSON: {error}") from error

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a field that holds a JSON object or its string; empty if it is missing."""
        value = self.data(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(f"{name!r} must hold an object, not {str(value)[:60]!r}")
        return value or {}

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a field that holds a list of strings or its JSON string; empty if it is missing."""
        value = self.data(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise self.error(f"{name!r} must hold a list of strings, not {str(value)[:60]!r}")
        return tuple(value)


@dataclass(frozen=True)
class TidyLists:
    """The two corrected lists of test ids, and what `meta` must record about them."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    meta: dict[str, Any]


def tidy_lists(fail_to_pass: Iterable[str], pass_to_pass: Iterable[str], parser: str) -> TidyLists:
    """Drop entries that are not test ids, strip durations (except for pytest) and mark ids that were cut at a blank."""
    is_pytest = parser.startswith("pytest")
    raw_lists = [tuple(fail_to_pass), tuple(pass_to_pass)]
    lists: list[tuple[str, ...]] = []
    for ids in raw_lists:
        test_ids = [test_id for test_id in ids if test_id.strip() and not _PROGRESS.fullmatch(test_id.strip())]
        lists.append(tuple(dict.fromkeys(test_ids if is_pytest else map(without_timing, test_ids))))
    meta: dict[str, Any] = {}
    if dropped := [item for ids in raw_lists for item in ids if _PROGRESS.fullmatch(item.strip())]:
        meta[DROPPED_IDS] = dropped
    if is_pytest and (cut := [item for ids in lists for item in ids if not is_complete(item)]):
        meta[PREFIX_IDS] = cut
    return TidyLists(lists[0], lists[1], meta)


def targets(test_patch: str) -> tuple[str, ...]:
    """Return the files of a test patch that hold tests, judging by their names."""
    paths = dict.fromkeys(path.strip().strip('"') for path in _TARGET.findall(test_patch))
    return tuple(path for path in paths if path != "/dev/null" and not path.endswith(_NOT_TESTS))


def language_of(row: DataSetRow, *patches: str) -> str:
    """Return the language that the row states, or that of most files of the patches; empty if it is unknown."""
    stated = row.text("language", "lang", default="").lower()
    if stated:
        return {"ts": "typescript", "js": "javascript", "c++": "cpp"}.get(stated, stated)
    endings = [f".{path.rpartition('.')[2]}" for patch in patches for path in targets(patch)]
    languages = [_LANGUAGES[ending] for ending in endings if ending in _LANGUAGES]
    return max(sorted(set(languages)), key=languages.count) if languages else ""


def parser_of(name: str | None, language: str) -> tuple[str, dict[str, Any]]:
    """Return the log parser that a row names, or the default of the language, and what `meta` must record about it.

    An unknown name is kept, so that grading reports it.
    """
    if name:
        return (resolve_parser(name) if has_parser(name) else name), {}
    return _PARSERS.get(language, f"unknown-{language or 'language'}"), {GUESSED_PARSER: True}
