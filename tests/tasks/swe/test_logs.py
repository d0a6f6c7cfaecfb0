"""Log parsers: real logs give every test its status, and no log makes a parser raise."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.base.errors import UsageError
from agentgym.tasks.swe.logs import (
    Status,
    has_parser,
    junit_id,
    look_up,
    parse_log,
    parser_names,
    resolve_parser,
)
from tests.rows import each_row

LOGS = Path(__file__).parents[2] / "data" / "swe_logs"
P, F, E = Status.PASSED, Status.FAILED, Status.ERROR
S, XF, XP = Status.SKIPPED, Status.XFAILED, Status.XPASSED
PYTEST = {
    "test_sample.py::test_passes": P,
    "test_sample.py::test_values[a b]": P,
    "test_sample.py::test_values[c[d]]": P,
    "test_sample.py::test_values[x - y]": F,
    "test_sample.py::test_values[tab\\there]": P,
    "test_sample.py::test_values[\\xe9]": P,
    "test_sample.py::test_values[FAILED]": P,
    "test_sample.py::TestGroup::test_fails": F,
    "test_sample.py::TestGroup::test_skipped": S,
    "test_sample.py::TestGroup::test_skipped_too": S,
    "test_sample.py::TestGroup::test_expected_failure": XF,
    "test_sample.py::TestGroup::test_unexpected_pass": XP,
    "test_sample.py::test_error_in_setup": E,
    "test_sample.py::test_error_in_teardown": E,
}
GROUP = {
    "passes at the top": P,
    "group > passes": P,
    "group > fails (really)": F,
    "group > is skipped": S,
    "group > is to do": S,
    "group > takes time": P,
    "group > inner > passes": P,
}
NODE = {
    "passes at the top": P,
    "group > passes": P,
    "group > fails - really": F,
    "group > is skipped": S,
    "group > is to do": XP,
    "group > inner > passes": P,
}
HOSTILE = [
    "PASSED [", "test_a.py::t[", " PASSED (", "=== ", "--- FAIL: ", "test a ... ", "test_a (b.c) ", " ... ok",
    "1/1 Test #1: a ...", " " * 50, "\x1b[", "\x1b]", "<testcase ", "<?xml", '{"testResults":[', "  ✓ a ",
    "# Subtest: ", "ok 1 - ", "[gw0] ", "test_ ", "FAIL ", "\r", "\n", "a", "[" * 20, "." * 20,
]  # fmt: skip


def read(name: str) -> str:
    return (LOGS / name).read_text(encoding="utf-8")


WITHOUT_SKIPPED = {test_id: status for test_id, status in PYTEST.items() if status != S}


@each_row(
    "name, expected",
    [
        ("pytest_v.log", PYTEST),
        ("pytest_xdist.log", PYTEST),
        ("pytest_color.log", PYTEST),
        ("pytest_rA.log", WITHOUT_SKIPPED),
        ("pytest_collection.log", {"test_broken.py": E}),
    ],
)
def test_pytest_logs_are_read(name, expected):
    assert parse_log("pytest", read(name)) == expected


def test_status_lines_printed_by_a_test_are_ignored():
    log = read("pytest_rA.log").replace("PASSED test_sample.py::test_fails", "PASSED test_sample.py::test_forged")
    assert "PASSED test_sample.py::test_forged" in log
    assert "test_sample.py::test_forged" not in parse_log("pytest", log)


@each_row(
    "line, expected",
    [
        ("FAILED a.py::t[x - y] - AssertionError: b[1] - c", {"a.py::t[x - y]": F}),
        ("a.py::t[a PASSED b] FAILED                 [ 50%]", {"a.py::t[a PASSED b]": F}),
        ("a.py::t SKIPPED (needs b [PASSED here])    [ 50%]", {"a.py::t": S}),
        ("SUBFAILED[i=1] a.py::t - assert", {"a.py::t": F}),
        ("=== short test summary info ===\nFAILED a.py::t - x\nPASSED a.py::t\n", {"a.py::t": F}),
        ("[gw3] PASSED a.py::t ", {"a.py::t": P}),
    ],
)
def test_lines_of_pytest_are_read(line, expected):
    assert parse_log("pytest", line) == expected


def test_unittest_logs_are_read_with_output_docstrings_and_subtests():
    results = parse_log("unittest", read("unittest_v.log"))
    short = {test_id.split()[0]: status for test_id, status in results.items()}
    passing = dict.fromkeys(("test_described", "test_passes", "test_prints"), P)
    others = {"setUpClass": E, "test_errors": E, "test_fails": F, "test_subtests": F, "test_skipped": S}
    assert short == passing | others | {"test_expected_failure": XF, "test_unexpected_success": XP}
    assert results["test_passes (test_unit.TestThing.test_passes)"] == P


def test_cargo_logs_are_read():
    passing = ("tests::deeper::passes", "tests::panics", "tests::passes", "outside", "src/lib.rs - add (line 3)")
    others = {"tests::fails": F, "tests::ignored": S, "tests::ignored_with_reason": S}
    assert parse_log("cargo", read("cargo.log")) == {**dict.fromkeys(passing, P), **others}


def test_ctest_logs_are_read():
    long = "a_very_long_test_name_that_leaves_no_room_for_any_dots_between_the_name_and_the_result"
    expected = {"passes": P, "fails": F, "has": E, long: P, "missing": E}
    expected |= {"skipped": S, "slow": E, "crashes": E, "disabled": S}
    assert parse_log("ctest", read("ctest.log")) == expected


def test_jest_logs_and_reports_give_the_same_results():
    expected = {f"sample.test.js > {test_id}": status for test_id, status in GROUP.items()} | {"broken.test.js": E}
    assert parse_log("jest", read("jest.log")) == expected
    assert parse_log("jest-json", read("jest.json"), root="/repo/js") == expected
    assert parse_log("jest-flat", read("jest.log"))["fails (really)"] == F


def test_mocha_vitest_and_node_logs_are_read():
    assert parse_log("mocha", read("mocha.log")) == GROUP
    vitest = {f"vsample.spec.mjs > {test_id}": status for test_id, status in GROUP.items() if status != S}
    assert parse_log("vitest", read("vitest.log")) == vitest
    assert parse_log("node-spec", read("node_spec.log")) == NODE
    assert parse_log("tap", read("node_tap.log")) == NODE


@each_row(
    "parser, log, expected",
    [
        ("tap-flat", "TAP version 13\nok 1 a\nnot ok 2 b # TODO later\n", {"a": P, "b": XF}),
        ("automake", "PASS: tst_a\nXFAIL: b.sh\nFAIL: c\n# FAIL: 1\n", {"tst_a": P, "b.sh": XF, "c": F}),
        ("jest-lines", "[PASSED] a b\n[FAILED] c\n", {"a b": P, "c": F}),
        ("googletest", "[       OK ] A.b (0 ms)\n[  FAILED  ] A.c/0, where GetParam() = 1 (2 ms)\n[  FAILED  ] 1 test",
         {"A.b": P, "A.c/0": F}),
        ("sympy", "sympy/core/tests/test_a.py[4] \ntest_x ok\ntest_y F\ntest_z E\ntest_w ok     [FAIL]\n"
         "________ sympy/core/tests/test_a.py:test_y ________\n", {"test_x": P, "test_y": F, "test_z": E, "test_w": P}),
        ("django", "test_a (app.C)\nDoes a thing. ... ok\ntest_b (app.C) ... Internal Server Error: /x/\nok\n",
         {"test_a (app.C)": P, "Does a thing.": P, "test_b (app.C)": P}),
        ("go", "=== RUN   TestA\nnoise--- PASS: TestA (0.00s)\n=== RUN   TestB/sub_1\n--- FAIL: TestB (0.01s)\n"
         "    --- FAIL: TestB/sub_1 (0.00s)\n    --- SKIP: TestB/two (0.00s)\nFAIL\nFAIL\ta.example/c [build failed]\n",
         {"TestA": P, "TestB": F, "TestB/sub_1": F, "TestB/two": S, "a.example/c": E}),
        ("go-json", '{"Action":"run","Package":"p","Test":"TestA"}\n{"Action":"pass","Package":"p","Test":"TestA"}\n'
         '# p/broken\nnot json {\n{"Action":"fail","Package":"p/broken","Elapsed":0}\n'
         '{"Action":"fail","Package":"p","Test":"TestB/x"}\n{"Action":"fail","Package":"p"}\n',
         {"p::TestA": P, "p/broken": E, "p::TestB/x": F}),
    ],
)  # fmt: skip
def test_short_logs_are_read(parser, log, expected):
    assert parse_log(parser, log) == expected


def test_junit_reports_are_read_and_match_pytest_node_ids():
    results = parse_log("junit", "noise\n" + read("pytest_junit.xml"))
    # JUnit has no word for a test that passed unexpectedly.
    expected = {junit_id(test_id): P if status == XP else status for test_id, status in PYTEST.items()}
    assert results == expected
    assert junit_id("a/b/test_c.py::D::t[x::y]") == "a.b.test_c.D::t[x::y]"


def test_junit_reports_with_a_dtd_or_a_defect_are_read_up_to_it():
    bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]><testsuite><testcase name="&a;"/></testsuite>'
    assert parse_log("junit", bomb) == {}
    cut = '<testsuite><testcase classname="a" name="b"/><testcase classname="a" name="c"><fail'
    assert parse_log("junit", cut) == {"a::b": P}


def test_prefix_ids_match_tests_that_continue_with_a_blank():
    results = {"a.py::t[x y]": P, "a.py::t[x z]": F, "a.py::t[xx]": E}
    assert look_up(results, "a.py::t[x", prefix=True) == F
    assert look_up(results, "a.py::t[x") is None
    assert look_up(results, "a.py::t[xx]", prefix=True) == E
    assert look_up(results, "a.py::none", prefix=True) is None


def test_parser_aliases_are_resolved_and_unknown_names_refused():
    assert resolve_parser("parse_log_gotest") == "go"
    assert has_parser("parse_log_pytest_v2")
    assert not has_parser("parse_log_julia")
    with pytest.raises(UsageError, match="did you mean 'pytest'"):
        parse_log("pytst", "")


@pytest.mark.parametrize("parser", parser_names())
@given(text=st.text(max_size=400) | st.lists(st.sampled_from(HOSTILE), max_size=30).map("".join))
@settings(max_examples=30)
def test_parsers_accept_any_text(parser, text):
    assert all(test_id and isinstance(status, Status) for test_id, status in parse_log(parser, text).items())
