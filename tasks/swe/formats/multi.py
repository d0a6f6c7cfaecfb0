"""Multi-SWE-bench and Multi-SWE-RL: pull requests in several languages, with the status of every test in three runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.tasks.swe.formats.row import DataSetRow, language_of, parser_of, targets, tidy_lists
from agentgym.tasks.swe.instance import TEST_TARGETS, Instance

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
