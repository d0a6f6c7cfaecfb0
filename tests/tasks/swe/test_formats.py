"""Instances survive conversions, and rows of other projects' data sets become correct instances."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.base.errors import UsageError
from agentgym.core.task import Task
from agentgym.tasks.swe.formats import detect, read_any, read_row
from agentgym.tasks.swe.instance import (
    PREFIX_IDS,
    TEST_TARGETS,
    Instance,
    from_task,
    read_instances,
    to_task,
    write_instances,
)
from agentgym.tools.patches import apply_patch, diff_trees
from tests.rows import each_row

FIX = diff_trees({"lib/a.py": b"x = 1\n"}, {"lib/a.py": b"x = 2\n"})
TESTS = diff_trees({}, {"tests/test_a.py": b"def test(): pass\n", "tests/data.json": b"{}\n"})
FULL = Instance(
    id="a__b-1",
    source="made",
    repo="a/b",
    base_ref="v1",
    prompt="It is\u2028wrong.",
    gold_patch=FIX,
    fail_to_pass=("tests/test_a.py::test",),
    pass_to_pass=("tests/test_a.py::other[x y]",),
    test_files={"tests/test_a.py": "def test(): pass\n"},
    test_patch=TESTS,
    test_command=("python", "-m", "pytest", "-rA"),
    archive="archives/b.tar.gz",
    python_path=("src",),
    difficulty=3,
    tags=("one",),
    hints="look at a.py",
    meta={"version": "1", PREFIX_IDS: []},
)


def swebench(**changes: Any) -> dict[str, Any]:
    row = {
        "instance_id": "Owner__Repo-12",
        "repo": "Owner/Repo",
        "base_commit": "abc",
        "patch": FIX,
        "test_patch": TESTS,
        "problem_statement": "Broken.",
        "hints_text": "secret",
        "version": "1.2",
        "FAIL_TO_PASS": '["tests/test_a.py::test", "tests/test_a.py::p[a"]',
        "PASS_TO_PASS": '["[100%]", "tests/test_a.py::q[b]"]',
        "environment_setup_commit": "def",
    }
    return row | changes


def multi(**changes: Any) -> dict[str, Any]:
    row = {
        "org": "Cli",
        "repo": "cli",
        "number": 7,
        "base": {"label": "cli:trunk", "ref": "trunk", "sha": "abc"},
        "resolved_issues": [{"number": 1, "title": "It fails", "body": "Really."}],
        "fix_patch": FIX.replace("a.py", "a.go"),
        "test_patch": TESTS.replace("a.py", "a.go"),
        "fixed_tests": {"TestA": {"run": "FAIL", "test": "FAIL", "fix": "PASS"}, "TestOther": None},
        "f2p_tests": {"TestA": {"run": "FAIL", "test": "FAIL", "fix": "PASS"}},
        "s2p_tests": {"TestS": {"run": "SKIP", "test": "SKIP", "fix": "PASS"}},
        "n2p_tests": {"TestN": {"run": "NONE", "test": "NONE", "fix": "PASS"}},
        "p2p_tests": {"TestP": {"run": "PASS", "test": "PASS", "fix": "PASS"}, "TestOther": None},
    }
    return row | changes


def r2e(**changes: Any) -> dict[str, Any]:
    def diff(path: str) -> dict[str, Any]:
        ranges = {"old_range": {"start": 1, "length": None}, "new_range": {"start": 1, "length": 2}, "section": ""}
        lines = [("deleted", "x = 1"), ("added", "x = 2"), ("added", "y = 3"), ("note", "No newline at end of file")]
        parts = [{"type": kind, "content": content} for kind, content in lines]
        sides = {"minus_file": {"path": f"a/{path}"}, "plus_file": {"path": f"b/{path}"}}
        hunks = [{"descriptor": ranges, "line_group": {"all_lines": parts}}]
        return {"header": {"file": {"path": path}, "misc_line": None}, "hunks": hunks, **sides}

    summary = "=== short test summary info ===\nPASSED r2e_tests/test_1.py::C::test_b\n"
    ran = {
        "test_file_names": ["test_1.py"],
        "test_file_codes": ["class C: pass\n"],
        "old_commit_res_stdout": f"{summary}FAILED r2e_tests/test_1.py::C::test_a - x\n",
    }
    after = {"C.test_a": "PASSED", "\x1b[1mC.test_b\x1b[0m": "PASSED", "C.test_c - y": "FAILED"}
    row = {
        "repo_name": "aiohttp",
        "docker_image": "namanjain12/aiohttp_final:f0d7",
        "commit_hash": "f0d7",
        "parsed_commit_content": json.dumps({"file_diffs": [diff("lib/a.py"), diff("tests/test_a.py")]}),
        "execution_result_content": json.dumps(ran),
        "expected_output_json": json.dumps(after),
        "problem_statement": "[ISSUE]\nIt fails.\n[/ISSUE]",
    }
    return row | changes


def test_instance_survives_json_tasks_and_files(tmp_path):
    assert Instance.from_dict(json.loads(json.dumps(FULL.to_dict()))) == FULL
    assert from_task(Task.from_dict(json.loads(json.dumps(to_task(FULL, "test").to_dict())))) == FULL
    write_instances(tmp_path / "x.jsonl", [FULL])
    assert read_instances(tmp_path / "x.jsonl") == (FULL,)
    assert read_any(tmp_path / "x.jsonl").instances == (FULL,)


def test_answers_are_only_in_the_gold_of_a_task():
    task = to_task(FULL, "train")
    visible = json.dumps([task.prompt, dict(task.data), task.tags])
    for secret in ("x = 2", "test_a.py", "look at a.py", "prefix_ids"):
        assert secret not in visible


@each_row(
    "change, reason",
    [
        ({"gold_ptch": ""}, "did you mean 'gold_patch'"),
        ({"fail_to_pass": "a.py::t"}, "'fail_to_pass' must be a list of strings"),
        ({"difficulty": True}, "'difficulty' must be a whole number"),
    ],
)
def test_invalid_fields_of_an_instance_are_refused_with_their_line(tmp_path, change, reason):
    lines = [json.dumps(FULL.to_dict()), json.dumps({**FULL.to_dict(), "id": "second", **change})]
    (tmp_path / "x.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UsageError, match=rf"x\.jsonl:2: .*{reason}"):
        read_instances(tmp_path / "x.jsonl")


def test_swe_bench_rows_are_corrected():
    assert detect(swebench()) == "swe-bench"
    instance = read_row(swebench(difficulty="1-4 hours"))
    assert instance.fail_to_pass == ("tests/test_a.py::test", "tests/test_a.py::p[a")
    assert instance.pass_to_pass == ("tests/test_a.py::q[b]",)
    assert instance.meta[PREFIX_IDS] == ["tests/test_a.py::p[a"]
    assert instance.meta["dropped_ids"] == ["[100%]"]
    assert instance.meta[TEST_TARGETS] == ["tests/test_a.py"]
    assert instance.image == "swebench/sweb.eval.x86_64.owner_1776_repo-12:latest"
    assert (instance.workdir, instance.parser, instance.difficulty) == ("/testbed", "pytest", 3)
    assert instance.tags == ("Owner/Repo", "python")


def test_projects_with_other_runners_get_their_command_and_parser():
    django = read_row(swebench(repo="django/django", FAIL_TO_PASS='["test_a (x.tests.C)"]', PASS_TO_PASS="[]"))
    assert django.parser == "django"
    assert "./tests/runtests.py" in django.test_command
    assert django.meta[TEST_TARGETS] == ["test_a"]
    assert read_row(swebench(repo="psf/requests")).parser == "pytest-options"
    go = read_row(swebench(test_patch=TESTS.replace(".py", "_test.go"), patch=FIX.replace(".py", ".go")))
    assert (go.parser, go.meta["parser_guessed"]) == ("go", True)


def test_swe_gym_rows_have_lists_and_other_images():
    row = swebench(instance_id="getmoto__moto-1", repo="getmoto/moto", FAIL_TO_PASS=["a.py::t"], PASS_TO_PASS=[])
    assert detect(row) == "swe-gym"
    assert read_row(row).image == "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-1:latest"
    assert read_row(row).fail_to_pass == ("a.py::t",)


def test_the_gold_patch_of_swe_smith_undoes_the_bug():
    row = {
        "instance_id": "oauthlib__oauthlib.1fd52536.combine__abc",
        "repo": "swesmith/oauthlib__oauthlib.1fd52536",
        "patch": FIX,
        "FAIL_TO_PASS": ["tests/test_a.py::test"],
        "PASS_TO_PASS": ["tests/test_b.py::test"],
        "problem_statement": "It broke.",
        "image_name": "swesmith.x86_64.oauthlib__oauthlib.1fd52536",
    }
    assert detect(row) == "swe-smith"
    instance = read_row(row)
    assert apply_patch({"lib/a.py": b"x = 2\n"}, instance.gold_patch) == {"lib/a.py": b"x = 1\n"}
    assert instance.image == "jyangballin/swesmith.x86_64.oauthlib_1776_oauthlib.1fd52536"
    assert (instance.repo, instance.base_ref) == ("oauthlib/oauthlib", row["instance_id"])
    assert instance.meta[TEST_TARGETS] == ["tests/test_a.py", "tests/test_b.py"]
    assert read_row({**row, "image_name": ""}).image == instance.image
    with pytest.raises(UsageError, match=r"row: the patch of .* cannot be reversed: patch line 3"):
        read_row({**row, "patch": "--- a/f\n+++ b/f\n"})


def test_r2e_rows_get_an_id_test_lists_and_the_gold_patch_without_tests():
    assert detect(r2e()) == "r2e-gym"
    instance = read_row(r2e())
    assert (instance.id, instance.base_ref) == ("aiohttp__f0d7", "f0d7^")
    assert (instance.fail_to_pass, instance.pass_to_pass) == (("C.test_a",), ("C.test_b",))
    assert instance.meta["expected_status"] == {"C.test_a": "passed", "C.test_b": "passed", "C.test_c": "failed"}
    assert instance.test_files == {"r2e_tests/test_1.py": "class C: pass\n"}
    assert apply_patch({"lib/a.py": b"x = 1\n"}, instance.gold_patch) == {"lib/a.py": b"x = 2\ny = 3"}
    assert instance.prompt == "It fails."
    without_log = read_row(r2e(execution_result_content=""))
    assert without_log.meta["status_before_unknown"] is True
    assert (without_log.fail_to_pass, without_log.pass_to_pass) == ((), ("C.test_a", "C.test_b"))


def test_multi_swe_bench_rows_require_all_tests_that_start_to_pass():
    assert detect(multi()) == "multi-swe-bench"
    instance = read_row(multi())
    assert (instance.id, instance.repo, instance.base_ref) == ("Cli__cli-7", "Cli/cli", "abc")
    assert (instance.fail_to_pass, instance.pass_to_pass) == (("TestA", "TestS", "TestN"), ("TestP",))
    assert instance.meta["status_before"] == {"TestA": "fail", "TestS": "skip", "TestN": "none"}
    assert (instance.image, instance.workdir) == ("mswebench/cli_m_cli:pr-7", "/home/cli")
    assert instance.prompt == "It fails\n\nReally."
    assert instance.parser == "go"


def test_swe_rebench_rows_name_their_command_and_parser():
    config = {"test_cmd": "pytest --no-header -rA", "log_parser": "parse_log_pytest", "python": "3.9"}
    row = swebench(install_config=config, FAIL_TO_PASS=["a.py::t[1 s]"], PASS_TO_PASS=[], FAIL_TO_FAIL=["a.py::u"])
    assert detect(row) == "swe-rebench"
    instance = read_row(row)
    assert instance.test_command[-3:] == ("pytest", "--no-header", "-rA")
    assert instance.fail_to_pass == ("a.py::t[1 s]",)
    assert instance.meta["FAIL_TO_FAIL"] == ["a.py::u"]
    assert instance.image == "swerebench/sweb.eval.x86_64.owner_1776_repo-12:latest"
    assert read_row(swebench(install_config=json.dumps(config))).test_command == instance.test_command


def test_swe_rebench_v2_rows_lose_durations_and_keep_unknown_parsers():
    config = {"test_cmd": ["npm ci", "npx jest --verbose"], "log_parser": "parse_log_julia"}
    row = swebench(
        install_config=config,
        language="ts",
        image_name="docker.io/swerebenchv2/owner-repo:12-abc",
        FAIL_TO_PASS=["adds (3 ms)", "adds (4 ms)"],
        PASS_TO_PASS=["subtracts [0.1 s]"],
        interface="Function: f()",
        meta={"llm_metadata": [{"difficulty": "hard"}]},
    )
    assert detect(row) == "swe-rebench-v2"
    instance = read_row(row)
    assert (instance.fail_to_pass, instance.pass_to_pass) == (("adds",), ("subtracts",))
    assert (instance.workdir, instance.parser, instance.difficulty) == ("/Repo", "parse_log_julia", 3)
    assert instance.test_command == ("bash", "-c", "npm ci\nnpx jest --verbose")
    assert instance.prompt == "Broken.\n\nInterface:\nFunction: f()"


def test_json_lines_json_lists_and_parquet_files_read_alike(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [multi(), multi(number=8, p2p_tests={"TestOther": {"run": "PASS", "test": "PASS", "fix": "PASS"}})]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "c.parquet")
    lines = read_any(tmp_path / "a.jsonl")
    assert lines == read_any(tmp_path / "b.json") == read_any(tmp_path / "c.parquet")
    assert (lines.format, len(lines.instances)) == ("multi-swe-bench", 2)


@each_row(
    "rows, reason",
    [
        ([swebench(), swebench()], ":2: id 'Owner__Repo-12' appears twice"),
        ([swebench(), swebench(instance_id="b", FAIL_TO_PASS="[oops")], ":2: 'FAIL_TO_PASS' is a string but not JSON"),
        ([{"question": "?"}], r":1: no known format has the fields \['question'\]"),
        ([], "holds no rows"),
    ],
)
def test_unreadable_rows_are_named_with_the_reason(tmp_path, rows, reason):
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(UsageError, match=reason):
        read_any(tmp_path / "a.jsonl")


@pytest.mark.parametrize("make", [swebench, multi, r2e])
@given(data=st.data())
@settings(max_examples=300)
def test_any_value_in_a_field_is_read_or_refused_with_a_usage_error(make, data):
    row = make()
    scalars = (
        st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["[1]", '{"a": 1}', "[{}]"])
    )
    keys = st.sampled_from(
        ["name", "run", "test", "fix", "title", "file_diffs", "header", "test_cmd", "log_parser", "test_file_names"]
    )
    values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))
    row[data.draw(st.sampled_from([*row, "install_config", "meta", "language"]))] = data.draw(values)
    try:
        instance = read_row(row)
    except UsageError:
        return
    assert Instance.from_dict(json.loads(json.dumps(instance.to_dict()))) == instance
