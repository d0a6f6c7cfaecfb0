"""Reads files of rows: JSON lines, a JSON list or Parquet, in a format detected from the fields of the first row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.base.choices import named
from agentgym.base.errors import UsageError
from agentgym.core.task_files import Quarantine
from agentgym.tasks.records import read_records
from agentgym.tasks.swe.formats.row import DataSetRow, language_of, parser_of, targets, tidy_lists
from agentgym.tasks.swe.formats.swebench import (
    PYTEST,
    in_conda,
    read_rebench,
    read_rebench_v2,
    read_swebench,
    read_swegym,
)
from agentgym.tasks.swe.instance import TEST_TARGETS, Instance
from agentgym.tasks.swe.logs import Status, parse_log
from agentgym.tools.patches import FilePatch, Hunk, HunkLine, PatchError, render_patch, reverse_patch
from agentgym.tools.patches.model import ADDED, CONTEXT, DELETED
from agentgym.tools.patches.paths import NOWHERE

_FIXED = ("fixed_tests", "f2p_tests", "s2p_tests", "n2p_tests")
_COLUMNS = ("name", "run", "test", "fix")


def read_multi(row: DataSetRow) -> Instance:
    """Read a row of Multi-SWE-bench or Multi-SWE-RL, in its plain form or with the tests in columns."""
    org, repo, number = row.text("org"), row.text("repo"), row.fields.get("number")
    if not isinstance(number, int):
        raise row.error(f"'number' must be the number of the pull request, not {number!r}")
    fix, test_patch = row.text("fix_patch"), row.text("test_patch", default="")
    language = language_of(row, fix)
    parser, guessed = parser_of(None, language)
    before, (to_fix, to_keep) = _transitions(row)
    tests = tidy_lists(to_fix, to_keep, parser)
    base = row.mapping("base")
    title, prompt = _issues(row)
    return Instance(
        id=row.text("instance_id", default=f"{org}__{repo}-{number}"),
        source="multi-swe-bench",
        repo=f"{org}/{repo}",
        base_ref=str(base.get("sha") or base.get("ref") or ""),
        prompt=row.text("problem_statement", default=prompt),
        gold_patch=fix,
        fail_to_pass=tests.fail_to_pass,
        pass_to_pass=tests.pass_to_pass,
        test_patch=test_patch,
        test_command=("bash", "/home/run.sh"),
        parser=parser,
        image=row.text("docker_image", default=f"mswebench/{org}_m_{repo}:pr-{number}".lower()),
        workdir=f"/home/{repo}",
        tags=tuple(tag for tag in (f"{org}/{repo}", language) if tag),
        hints=row.text("hints", default=""),
        meta={
            "status_before": before,
            "title": title,
            TEST_TARGETS: list(targets(test_patch)),
            **tests.meta,
            **guessed,
        },
    )


def _transitions(row: DataSetRow) -> tuple[dict[str, str], tuple[list[str], list[str]]]:
    """Return the statuses of the tests to fix before the fix, and the two lists.

    A test's own statuses decide where the row has them: the names of the fields are wrong in some releases.
    """
    before: dict[str, str] = {}
    to_fix, to_keep = dict[str, None](), dict[str, None]()
    for name in (*_FIXED, "p2p_tests"):
        for test_id, statuses in _tests(row, name):
            test, fix = (str(statuses.get(key) or "").upper() for key in ("test", "fix"))
            if fix and fix != "PASS":
                continue
            if test == "PASS" or (not test and name == "p2p_tests"):
                to_keep[test_id] = None
            else:
                to_fix[test_id] = None
                before[test_id] = test.lower() or "unknown"
    return before, (list(to_fix), [test_id for test_id in to_keep if test_id not in to_fix])


def _tests(row: DataSetRow, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tests of a field with their statuses, from either form."""
    entry = row.mapping(name)
    if isinstance(entry.get("name"), list):
        columns = [entry.get(column) or [] for column in _COLUMNS]
        if len({len(column) for column in columns}) != 1:
            raise row.error(f"the columns of {name!r} differ in length: {[len(column) for column in columns]}")
        for test_id, *statuses in zip(*columns, strict=True):
            yield str(test_id), dict(zip(_COLUMNS[1:], statuses, strict=True))
        return
    for test_id, statuses in entry.items():
        # Tables with a column per test give every row the tests of all rows, most of them empty.
        if isinstance(statuses, Mapping) and any(statuses.values()):
            yield test_id, statuses


def _issues(row: DataSetRow) -> tuple[str, str]:
    """Return the title of the pull request, and the issues it resolves (else its own text: it may reveal the fix)."""
    field = row.data("resolved_issues")
    if isinstance(field, Mapping):
        columns = [field.get(name) for name in ("title", "body")]
        pairs = list(zip(*(value if isinstance(value, list) else [value] for value in columns), strict=False))
    else:
        issues = field if isinstance(field, list) else []
        pairs = [(issue.get("title"), issue.get("body")) for issue in issues if isinstance(issue, Mapping)]
    texts = ["\n\n".join(part.strip() for part in pair if isinstance(part, str) and part.strip()) for pair in pairs]
    title = row.text("title", default="")
    own = "\n\n".join(part for part in (title, row.text("body", default="")) if part)
    return title, "\n\n".join(text for text in texts if text) or own


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


_ORGANISATION = "swesmith/"


def read_swesmith(row: DataSetRow) -> Instance:
    """Read a row of SWE-smith.

    The image has the repository without the bug; the branch named like the row has the bug in its last commit but
    one and removes the failing tests in its last.
    """
    instance_id, mirror = row.text("instance_id"), row.text("repo")
    bug = row.text("patch")
    try:
        gold = reverse_patch(bug if bug.endswith("\n") else f"{bug}\n")
    except PatchError as error:
        raise row.error(f"the patch of {instance_id!r} cannot be reversed: {error}") from error
    named = [*row.strings("FAIL_TO_PASS"), *row.strings("PASS_TO_PASS")]
    is_python = any(".py" in test_id.partition("::")[0] for test_id in named)
    parser, guessed = parser_of("pytest" if is_python else None, "")
    tests = tidy_lists(row.strings("FAIL_TO_PASS"), row.strings("PASS_TO_PASS"), parser)
    files = sorted({test_id.partition("::")[0] for test_id in named if "::" in test_id})
    repo = mirror.removeprefix(_ORGANISATION).rpartition(".")[0].replace("__", "/", 1) or mirror
    return Instance(
        id=instance_id,
        source="swe-smith",
        repo=repo,
        base_ref=row.text("base_commit", "branch", default=instance_id),
        prompt=row.text("problem_statement", default=""),
        gold_patch=gold,
        fail_to_pass=tests.fail_to_pass,
        pass_to_pass=tests.pass_to_pass,
        test_patch=row.text("test_patch", default=""),
        test_command=in_conda(PYTEST),
        parser=parser,
        image=_image(row.text("image_name", default=""), mirror),
        workdir="/testbed",
        tags=(repo,),
        meta={TEST_TARGETS: files, "bug_patch": bug, "branch": instance_id, **tests.meta, **guessed},
    )


def _image(named: str, mirror: str) -> str:
    """Return the image by the rule `swesmith.x86_64.OWNER_1776_REPO.COMMIT`, under its owner on Docker Hub."""
    name = named or f"swesmith.x86_64.{mirror.removeprefix(_ORGANISATION)}"
    owner, slash, rest = name.rpartition("/")
    return f"{owner or 'jyangballin'}{slash or '/'}{rest.replace('__', '_1776_')}".lower()


_GYM_REPOS = frozenset(
    {
        "getmoto/moto",
        "project-monai/monai",
        "pandas-dev/pandas",
        "python/mypy",
        "dask/dask",
        "iterative/dvc",
        "conan-io/conan",
        "pydantic/pydantic",
        "facebookresearch/hydra",
        "bokeh/bokeh",
        "modin-project/modin",
    }
)


@dataclass(frozen=True)
class ReadResult:
    """The content of a file."""

    format: str
    """Name of its format."""
    instances: tuple[Instance, ...]


def _read_own(row: DataSetRow) -> Instance:
    try:
        return Instance.from_dict(row.fields)
    except UsageError as error:
        raise row.error(str(error)) from error


FORMATS: dict[str, Callable[[DataSetRow], Instance]] = {
    "agentgym": _read_own,
    "multi-swe-bench": read_multi,
    "r2e-gym": read_r2e,
    "swe-rebench-v2": read_rebench_v2,
    "swe-rebench": read_rebench,
    "swe-smith": read_swesmith,
    "swe-gym": read_swegym,
    "swe-bench": read_swebench,
}
"""Readers of rows, by format."""


def detect(fields: Mapping[str, Any]) -> str:
    """Return the format of a row. Raises `UsageError` if its fields fit none."""
    if {"gold_patch", "fail_to_pass"} <= fields.keys():
        return "agentgym"
    if {"org", "number", "fix_patch"} <= fields.keys():
        return "multi-swe-bench"
    if {"parsed_commit_content", "expected_output_json"} <= fields.keys():
        return "r2e-gym"
    if not {"instance_id", "repo", "patch"} <= fields.keys():
        raise UsageError(f"no known format has the fields {sorted(fields)}; there are: {', '.join(FORMATS)}")
    named = f"{fields.get('image_name')} {fields.get('repo')}".lower()
    if "install_config" in fields:
        return "swe-rebench-v2" if "swerebenchv2" in named or "language" in fields else "swe-rebench"
    if "swesmith" in named:
        return "swe-smith"
    listed = not isinstance(fields.get("FAIL_TO_PASS"), str)
    return "swe-gym" if listed and str(fields["repo"]).lower() in _GYM_REPOS else "swe-bench"


def read_row(fields: Mapping[str, Any], format: str | None = None, *, where: str = "row") -> Instance:
    """Read one row.

    Args:
        fields: The row.
        format: A name in `FORMATS`; detected from the fields if not given.
        where: Name of the row in messages.
    """
    format_name = format or _detected(where, fields)
    row = DataSetRow(where, fields)
    instance = named("format", format_name, FORMATS)(row)
    return instance if format_name == "agentgym" else _with_archive(row, instance)


def _with_archive(row: DataSetRow, instance: Instance) -> Instance:
    """Return an instance with the archive of its row, if the row names one.

    An image that the row does not name itself is the default of its data set, which the archive replaces.
    """
    archive = row.fields.get("archive")
    if archive is None:
        return instance
    if not isinstance(archive, str) or not archive:
        raise row.error(f"'archive' must be the path of a tar file or folder, not {archive!r:.60}")
    image = row.text("image_name", "docker_image", default="")
    return replace(instance, archive=archive, image=image or None)


def read_any(path: str | Path, format: str | None = None) -> ReadResult:
    """Read a file of rows (JSON lines, a JSON list or Parquet) into instances.

    Args:
        path: The file.
        format: A name in `FORMATS`; detected from the fields of the first row if not given.

    Raises:
        UsageError: A row cannot be read, or an id appears twice; names the line or the number of the row.
        MissingExtra: The file is Parquet and `pyarrow` is not installed.
    """
    instances: dict[str, Instance] = {}
    for record in read_records(Path(path), Quarantine(str(path), strict=True)):
        format = format or _detected(record.where, record.fields)
        instance = read_row(record.fields, format, where=record.where)
        if instance.id in instances:
            raise UsageError(f"{record.where}: id {instance.id!r} appears twice")
        instances[instance.id] = instance
    if format is None:
        raise UsageError(f"{str(path)!r} holds no rows")
    return ReadResult(format, tuple(instances.values()))


def _detected(where: str, fields: Mapping[str, Any]) -> str:
    try:
        return detect(fields)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
