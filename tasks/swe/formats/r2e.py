"""R2E-Gym: commits with tests made for them. Rows have no ids and no test lists; both are derived from other fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.tasks.swe.formats.row import DataSetRow, tidy_lists
from agentgym.tasks.swe.instance import TEST_TARGETS, Instance
from agentgym.tasks.swe.logs import Status, parse_log
from agentgym.tools.patches import FilePatch, Hunk, HunkLine, render_patch
from agentgym.tools.patches.model import ADDED, CONTEXT, DELETED
from agentgym.tools.patches.paths import NOWHERE

EXPECTED = "expected_status"
"""Key in `meta`: the status of every test after the gold patch; R2E-Gym requires all of them, and no other tests."""
UNKNOWN_BEFORE = "status_before_unknown"
"""Key in `meta`: the row lacks the log from before, so the initially failing tests are unknown."""

_TESTS = "r2e_tests"
_WRAP = re.compile(r"^\s*\[ISSUE\]\s*(.*?)\s*\[/ISSUE\]\s*$", re.DOTALL)
_COLOUR = re.compile(r"(?:\x1b|\\u001b)\[[0-9;]*m")
_OPS = {"context": CONTEXT, "added": ADDED, "deleted": DELETED}


def read_r2e(row: DataSetRow) -> Instance:
    """Read a row of R2E-Gym."""
    repo, commit = row.text("repo_name", "repo"), row.text("commit_hash", "base_commit")
    parsed, ran = row.mapping("parsed_commit_content"), row.mapping("execution_result_content")
    expected = {_test_id(name): str(status).lower() for name, status in row.mapping("expected_output_json").items()}
    passing = [name for name, status in expected.items() if name and status == "passed"]
    before = _statuses(ran.get("old_commit_res_stdout"))
    failing = {name for name in passing if before and before.get(name) != Status.PASSED}
    to_fix, to_keep = (
        [name for name in passing if (name in failing) == failed_before] for failed_before in (True, False)
    )
    tests = tidy_lists(to_fix, to_keep, "pytest-r2e")
    files = dict(_test_files(ran))
    issue = row.text("problem_statement", "prompt")
    unwrapped = _WRAP.match(issue)
    return Instance(
        id=f"{repo}__{commit}",
        source="r2e-gym",
        repo=repo,
        base_ref=str(parsed.get("old_commit_hash") or f"{commit}^"),
        prompt=unwrapped.group(1) if unwrapped else issue,
        gold_patch=_gold(row, parsed),
        fail_to_pass=tests.fail_to_pass,
        pass_to_pass=tests.pass_to_pass,
        test_files=files,
        test_command=("bash", "run_tests.sh"),
        parser="pytest-r2e",
        image=row.text("docker_image", default=f"namanjain12/{repo}_final:{commit}"),
        workdir="/testbed",
        tags=(repo,),
        meta={
            EXPECTED: expected,
            TEST_TARGETS: list(files),
            **({} if before else {UNKNOWN_BEFORE: True}),
            **tests.meta,
        },
    )


def _test_id(name: str) -> str:
    return _COLOUR.sub("", name).split(" - ")[0]


def _statuses(log: Any) -> dict[str, Status]:
    return parse_log("pytest-r2e", log) if isinstance(log, str) else {}


def _test_files(ran: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the hidden tests, with paths in the folder where they run."""
    columns = [ran.get(name) for name in ("test_file_names", "test_file_codes")]
    for name, code in zip(*(column if isinstance(column, list) else [] for column in columns), strict=False):
        if isinstance(name, str) and isinstance(code, str):
            yield f"{_TESTS}/{name.rpartition('/')[2]}", code


def _gold(row: DataSetRow, parsed: Mapping[str, Any]) -> str:
    """Return the commit's changes outside of tests as a patch."""
    try:
        patches = [_file_patch(item) for item in parsed.get("file_diffs") or ()]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise row.error(f"'parsed_commit_content' is malformed: {type(error).__name__}: {error}") from error
    text = render_patch(patch for patch in patches if not is_test_path(patch.path))
    if not text:
        raise row.error("'parsed_commit_content' has no change outside of tests")
    return text


def is_test_path(path: str) -> bool:
    """Return whether R2E-Gym takes a file for a test."""
    *folders, name = path.split("/")
    in_tests = not {"tests", "Tests", "test", "Test"}.isdisjoint(folders)
    return in_tests or name.startswith("test_") or name.endswith("_test.py")


def _file_patch(item: Mapping[str, Any]) -> FilePatch:
    path = str(item["header"]["file"]["path"])
    minus, plus = (_side(item.get(name)) for name in ("minus_file", "plus_file"))
    note = str(item["header"].get("misc_line") or "")
    return FilePatch(
        old_path=None if minus == NOWHERE or note.startswith("new file") else path,
        new_path=None if plus == NOWHERE or note.startswith("deleted file") else path,
        hunks=tuple(_hunk(hunk) for hunk in item.get("hunks") or ()),
    )


def _side(value: Any) -> str:
    return str(value.get("path", "")) if isinstance(value, Mapping) else ""


def _hunk(item: Mapping[str, Any]) -> Hunk:
    described = item["descriptor"]
    lines: list[HunkLine] = []
    for entry in item["line_group"]["all_lines"]:
        kind, content = str(entry["type"]), str(entry["content"])
        if kind == "note":
            lines[-1:] = [HunkLine(line.op, line.text.removesuffix("\n")) for line in lines[-1:]]
        else:
            lines.append(HunkLine(_OPS[kind], f"{content}\n"))
    old, new = int(described["old_range"]["start"]), int(described["new_range"]["start"])
    return Hunk(old, new, tuple(lines), str(described.get("section") or "").strip())
