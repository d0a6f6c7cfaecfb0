"""Building tasks of packages: reading them, running their tests, verdicts, issue texts, whole builds."""

from __future__ import annotations

import io
import json
import os
import random
import tarfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.errors import UsageError
from agentgym.tasks.swe import build_runner, validation
from agentgym.tasks.swe.build import BuildOptions, archive_of, build
from agentgym.tasks.swe.build_check import GradingCheck
from agentgym.tasks.swe.build_command import BuildRequest, run_build
from agentgym.tasks.swe.build_instance import without_tests
from agentgym.tasks.swe.build_runner import Conditions, Failure, RunError, SubprocessRunner
from agentgym.tasks.swe.build_source import Package, read_package, read_tree
from agentgym.tasks.swe.build_steady import MAX_SUITE_S, Unfit, unfit_tests
from agentgym.tasks.swe.instance import Instance, read_instances
from agentgym.tasks.swe.issue_example import example_of
from agentgym.tasks.swe.issue_text import Secrets, Symptom, Vagueness, issue_text, tells_secret
from agentgym.tasks.swe.validation import Baseline, Verdict, measure_baseline, validate
from agentgym.tools.patches import apply_patch

LIBRARY = '''"""Sums."""


def clamp(value, low=0, high=10):
    """Keep a value within bounds."""
    if low > high:
        raise ValueError("bounds are the wrong way round")
    return max(low, min(value, high))


def total(values, start=0):
    """Add up values."""
    result = start
    for value in values:
        result += value
    return result


def mean(values):
    """Return the mean, or None of nothing."""
    if not values:
        return None
    return total(values) / len(values)
'''
TESTS = """import pytest
from sums import clamp, mean, total


@pytest.mark.parametrize(("value", "result"), [(-1, 0), (0, 0), (5, 5), (10, 10), (11, 10)])
def test_clamp(value, result):
    assert clamp(value) == result


def test_clamp_bounds():
    with pytest.raises(ValueError):
        clamp(1, 3, 2)
    assert clamp(7, 2, 4) == 4


def test_total():
    assert total([1, 2, 3]) == 6


def test_total_start():
    assert total([1], start=5) == 6


def test_mean():
    assert mean([1, 3]) == 2


def test_mean_of_nothing():
    assert mean([]) is None


class TestClass:
    def test_inside(self):
        assert total([]) == 0
"""
FILES = {"sums.py": LIBRARY.encode(), "tests/test_sums.py": TESTS.encode()}


def package(files: Mapping[str, bytes] = FILES) -> Package:
    return Package("sums", "1.0", dict(files), (".",), ("sums.py",), ("tests/test_sums.py",))


def run(files: Mapping[str, bytes], **options: object) -> build_runner.TestOutcome:
    return SubprocessRunner()(files, ["tests/test_sums.py"], **options)  # type: ignore[arg-type]


def one_test(body: str) -> dict[str, bytes]:
    return {"tests/test_sums.py": body.encode()}


def test_runner_reports_every_status() -> None:
    body = """import pytest
def test_a(): pass
def test_b(): assert 1 == 2
def test_c(): pytest.skip("no")
@pytest.mark.xfail
def test_d(): assert False
@pytest.fixture
def broken(): raise OSError("x")
def test_e(broken): pass
"""
    outcome = run(one_test(body))
    assert [status for _, status in sorted(outcome.statuses.items())] == [
        "passed", "failed", "skipped", "xfailed", "error",
    ]  # fmt: skip
    assert outcome.error is None


def test_runner_tells_why_a_test_failed() -> None:
    outcome = run({**FILES, "sums.py": LIBRARY.replace("max(", "min(").encode()})
    failure = outcome.failures["tests/test_sums.py::test_clamp[5-5]"]
    assert failure.compared == ("0", "==", "5")
    assert failure.parameters == {"value": "5", "result": "5"}
    assert failure.frames[-1][0] == "tests/test_sums.py"


def test_runner_traces_functions_by_test() -> None:
    ran = run(FILES, trace=True).ran
    assert ran["tests/test_sums.py::test_mean"] >= {("sums.py", "mean"), ("sums.py", "total")}
    assert ("sums.py", "mean") not in ran["tests/test_sums.py::test_total"]


def test_timeout_ends_the_whole_process_group(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    body = f"""import subprocess, sys, time
def test_a():
    code = "import time, pathlib; time.sleep(4); pathlib.Path({str(mark)!r}).write_text('alive')"
    subprocess.Popen([sys.executable, "-c", code])
    time.sleep(60)
"""
    started = time.monotonic()
    outcome = run(one_test(body), timeout_s=2.0)
    assert outcome.error is RunError.TIMEOUT
    assert time.monotonic() - started < 50
    time.sleep(4)
    assert not mark.exists()


def test_death_of_the_process_is_a_crash() -> None:
    assert run(one_test("import os\ndef test_a(): os._exit(0)")).error is RunError.CRASH


def test_module_that_cannot_be_imported_is_a_collection_error() -> None:
    outcome = run(one_test("import nothing_of_the_kind"))
    assert outcome.error is RunError.COLLECTION
    assert "nothing_of_the_kind" in outcome.detail


def test_packages_configuration_and_plugins_are_not_used() -> None:
    files = {**FILES, "pytest.ini": b"[pytest]\naddopts = --wrong\n", "setup.cfg": b"[tool:pytest]\naddopts = -x\n"}
    assert len(run(files).passing) == 11


def test_file_names_that_lead_outside_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\.\./evil"):
        run({"../evil.py": b""})


def test_memory_is_bounded() -> None:
    outcome = SubprocessRunner(memory_mb=600)(
        one_test("def test_a():\n    bytearray(2_000_000_000)"), ["tests/test_sums.py"]
    )
    assert outcome.failures["tests/test_sums.py::test_a"].exception == "MemoryError"


def test_conditions_of_a_run_are_met() -> None:
    body = """import time
def test_b():
    start = time.monotonic_ns()
    print(os.write(7, b"")) if False else None
    assert time.monotonic_ns() - start < 1_000_000_000
def test_a(): pass
"""
    usual = run(one_test(body))
    other = run(one_test(body), conditions=Conditions(hash_seed=1, backwards=True, leap=1))
    assert len(usual.passing) == 2
    assert list(other.statuses) == [*usual.statuses][::-1]
    assert other.failing == {"tests/test_sums.py::test_b"}


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "modules", "tests", "roots"),
    [
        ("a/__init__.py a/b.py test_a.py setup.py", "a/__init__.py a/b.py", "test_a.py", "."),
        ("src/a/__init__.py tests/test_a.py docs/x.py", "src/a/__init__.py", "tests/test_a.py", "src ."),
        ("a.py conftest.py test_a.py noxfile.py", "a.py", "test_a.py", "."),
        ("a/__init__.py a/tests/__init__.py a/tests/test_b.py", "a/__init__.py", "a/tests/test_b.py", "."),
        ("a/__init__.py a/tools/c.py tests/b_test.py", "a/__init__.py a/tools/c.py", "tests/b_test.py", "."),
    ],
)
def test_layout_is_found(tmp_path: Path, files: str, modules: str, tests: str, roots: str) -> None:
    found = read_package(write(tmp_path, dict.fromkeys(files.split(), "")))
    assert [" ".join(each) for each in (found.modules, found.test_files, found.python_path)] == [modules, tests, roots]


def test_folder_of_helpers_that_tests_import_is_on_the_path(tmp_path: Path) -> None:
    files = {"a.py": "", "test/common.py": "", "test/test_a.py": "from common import x", "more/test_b.py": "import a"}
    assert read_package(write(tmp_path, files)).python_path == (".", "test")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conftest.py", ""),
        ("test/conftest.py", "from common import x"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['test', 'nowhere']"),
        (".pytest.ini", "[pytest]\npythonpath = . test"),
        ("setup.cfg", "[tool:pytest]\npythonpath =\n  test"),
    ],
)
def test_folders_that_helpers_or_settings_need_are_on_the_path(tmp_path: Path, name: str, text: str) -> None:
    files = {"a.py": "", "test/common.py": "", "test/test_a.py": "import a", name: text}
    assert read_package(write(tmp_path, files)).python_path == ((".", "test") if text else (".",))


def test_name_and_version_come_from_the_metadata(tmp_path: Path) -> None:
    files = {"PKG-INFO": "Name: some.thing\nVersion: 2.3\n", "a.py": "", "test_a.py": ""}
    found = read_package(write(tmp_path, files))
    assert (found.name, found.version) == ("some.thing", "2.3")


def test_package_without_tests_or_modules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no package"):
        read_package(write(tmp_path / "x", {"test_a.py": ""}))
    with pytest.raises(UsageError, match="no test files"):
        read_package(write(tmp_path / "y", {"a.py": ""}))
    with pytest.raises(UsageError, match="neither a folder nor"):
        read_package(tmp_path / "z")


def test_caches_and_links_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "x", "__pycache__/a.pyc": "", ".git/config": "", "b.egg-info/PKG-INFO": ""})
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    assert read_tree(tmp_path) == {"a.py": b"x"}


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for info, content in members:
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def test_archive_members_that_lead_outside_are_not_read(tmp_path: Path) -> None:
    link = tarfile.TarInfo("p/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    path = archive(
        tmp_path / "p.tar.gz",
        (tarfile.TarInfo("p/a.py"), b"x"),
        (tarfile.TarInfo("p/../../evil.py"), b"x"),
        (tarfile.TarInfo("/evil.py"), b"x"),
        (link, b""),
    )
    assert read_tree(path) == {"a.py": b"x"}


def test_archive_is_the_same_bytes_each_time_and_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(archive_of(FILES))
    assert archive_of(FILES) == path.read_bytes()
    assert read_tree(path) == FILES


UNFIT = {
    "wrong": ("def test_wrong(): assert total([1]) == 2", Unfit.FAILS),
    "skipped": ("@pytest.mark.skip\ndef test_skipped(): pass", Unfit.FAILS),
    "set": ("@pytest.mark.parametrize('x', {'a', 'b', 'c', 'd', 'e', 'f'})\ndef test_set(x): pass", Unfit.RENAMED),
    "address": ("@pytest.mark.parametrize('x', [object()], ids=id)\ndef test_address(x): pass", Unfit.RENAMED),
    "hash": ("import sys\ndef test_hash(): assert not sys.flags.hash_randomization", Unfit.DISTURBED),
    "elapsed": (
        "import time\ndef test_elapsed():\n    start = time.perf_counter()\n    total([1])\n"
        "    assert time.perf_counter() - start < 2",
        Unfit.DISTURBED,
    ),
    "ratio": (
        "from time import time\ndef test_ratio():\n    a, b, c = time(), time(), time()\n"
        "    assert c - b < 3 * (b - a) + 0.9",
        Unfit.DISTURBED,
    ),
    "growth": (
        "import statistics, time\n"
        "def took():\n    start = time.perf_counter()\n    total([1])\n    return time.perf_counter() - start\n"
        "def median(): return statistics.median(took() for _ in range(3))\n"
        "@pytest.mark.parametrize('reads', range(4))\n"
        "def test_growth(reads):\n    [time.time() for _ in range(reads)]\n    small = median()\n"
        "    assert median() < 3.5 * small + 0.9",
        Unfit.DISTURBED,
    ),
    "subtests": (
        "import time, unittest\nclass TestSub(unittest.TestCase):\n    def test_subtests(self):\n"
        "        for number in range(2):\n            with self.subTest(number=number):\n"
        "                start = time.perf_counter()\n                assert time.perf_counter() - start < 1",
        Unfit.DISTURBED,
    ),
    "order": (
        "import sums\ndef test_first(): sums.mark = 1\ndef test_order(): assert sums.mark == 1",
        Unfit.DISTURBED,
    ),
    "written": (
        "import pathlib\ndef test_written(): pathlib.Path(__file__).with_name('x.txt').write_text('x')",
        Unfit.WRITES,
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_tests_that_cannot_be_relied_on_are_dropped(name: str) -> None:
    body, reason = UNFIT[name]
    tests = {"tests/test_sums.py": f"{TESTS}\n{body}\n".encode()}
    baseline = measure_baseline(package({**FILES, **tests}), SubprocessRunner())
    assert not any(f"test_{name}" in test for test in baseline.passing)
    assert len(baseline.passing) >= 11
    assert {why for test, why in baseline.dropped.items() if f"test_{name}" in test} == {reason}


def test_test_that_fails_every_third_time_is_dropped(tmp_path: Path) -> None:
    body = f"""
import os
def test_third():
    number = len(os.listdir({str(tmp_path)!r}))
    open(os.path.join({str(tmp_path)!r}, str(os.getpid())), "w").close()
    assert number % 3 != 2
"""
    tests = {"tests/test_sums.py": (TESTS + body).encode()}
    baseline = measure_baseline(package({**FILES, **tests}), SubprocessRunner())
    assert list(baseline.dropped) == ["tests/test_sums.py::test_third"]


def test_tests_that_write_elsewhere_or_wait_are_kept() -> None:
    body = """
import threading, time
def test_temporary(tmp_path):
    (tmp_path / "x").write_text("x")
def test_waits():
    event = threading.Event()
    threading.Timer(0.05, event.set).start()
    assert event.wait(20)
def test_clock_goes_on():
    start = time.monotonic()
    time.sleep(0.01)
    assert time.monotonic() - start >= 0.01
"""
    tests = {"tests/test_sums.py": (TESTS + body).encode()}
    assert measure_baseline(package({**FILES, **tests}), SubprocessRunner()).dropped == {}


def test_slowest_tests_are_dropped_until_the_others_have_time() -> None:
    def took(**durations: float) -> build_runner.TestOutcome:
        return build_runner.TestOutcome(dict.fromkeys(durations, "passed"), durations=durations)

    run = took(a=1.0, b=MAX_SUITE_S, c=2.0, d=2 * MAX_SUITE_S)
    assert unfit_tests(run, run, []) == {"b": Unfit.SLOW, "d": Unfit.SLOW}


def test_modules_that_tests_lack_are_named() -> None:
    files = {**FILES, "tests/test_more.py": b"import nothing.of_the_kind"}
    both = replace(package(files), test_files=("tests/test_more.py", "tests/test_sums.py"))
    assert measure_baseline(both, SubprocessRunner()).missing_modules == ("nothing",)
    only = replace(both, test_files=("tests/test_more.py",))
    with pytest.raises(UsageError, match="not found: nothing"):
        measure_baseline(only, SubprocessRunner())


PASSED = {f"t.py::test_{number}": "passed" for number in range(10)}
BASELINE = Baseline(tuple(PASSED), {}, {}, 1.0)


class Canned:
    """Answers runs with prepared outcomes."""

    def __init__(self, *outcomes: build_runner.TestOutcome):
        self.outcomes = list(outcomes)

    def __call__(self, tree: object, tests: object, **options: object) -> build_runner.TestOutcome:
        return self.outcomes.pop(0)


def failing(*numbers: int, error: RunError | None = None) -> build_runner.TestOutcome:
    return build_runner.TestOutcome({**PASSED, **{f"t.py::test_{number}": "failed" for number in numbers}}, error)


def missing(count: int) -> build_runner.TestOutcome:
    return build_runner.TestOutcome(dict(list(failing(0).statuses.items())[: len(PASSED) - count]))


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([failing(1), failing(1)], Verdict.VALID),
        ([failing(1, 2, 3), failing(1, 2, 3)], Verdict.VALID),
        ([failing(1, 2, 3, 4)], Verdict.TOO_BROAD),
        ([failing()], Verdict.NO_TEST_FAILS),
        ([failing(1), failing(2)], Verdict.FLAKY),
        ([failing(1), failing()], Verdict.FLAKY),
        ([missing(2)], Verdict.BREAKS_COLLECTION),
        ([failing(1, error=RunError.TIMEOUT)], Verdict.TIMEOUT),
        ([failing(1, error=RunError.CRASH)], Verdict.CRASH),
    ],
)
def test_verdict(outcomes: list[build_runner.TestOutcome], verdict: Verdict) -> None:
    found = validate(package(), FILES, [("sums.py", "total")], BASELINE, Canned(*outcomes))  # type: ignore[arg-type]
    assert found.verdict is verdict
    assert len(found.fail_to_pass) + len(found.pass_to_pass) == (10 if verdict is Verdict.VALID else 0)


def test_relevant_test_files_run_first_and_end_a_slow_validation_early() -> None:
    covering = {("a.py", "f"): ("two.py::test_x",)}
    baseline = Baseline(("one.py::test_a", "two.py::test_x", "two.py::test_y"), {}, covering, 60.0)
    asked: list[list[str]] = []

    def runner(tree: object, tests: list[str], **options: object) -> build_runner.TestOutcome:
        asked.append(list(tests))
        return build_runner.TestOutcome(dict.fromkeys(baseline.passing, "passed"))

    found = validate(package(), FILES, [("a.py", "f")], baseline, runner)  # type: ignore[arg-type]
    assert found.verdict is Verdict.NO_TEST_FAILS
    assert asked == [["two.py"]]
    assert validation._relevant_first(baseline, [("a.py", "f")]) == ("two.py", "one.py")


def test_build_makes_valid_instances(tmp_path: Path) -> None:
    report = build(package(), SubprocessRunner(), BuildOptions(count=6, seed=1))
    assert len(report.instances) == report.verdicts[Verdict.VALID] == 6
    for instance in report.instances:
        visible = apply_patch(FILES, instance.meta["bug_patch"])
        assert apply_patch(visible, instance.gold_patch)["sums.py"] == FILES["sums.py"]
        assert 1 <= len(instance.fail_to_pass) <= 3
        assert 1 <= instance.difficulty <= 5
    families = [frozenset(instance.meta["functions"] + instance.meta["operators"]) for instance in report.instances]
    assert len(set(families)) == len(families)


def test_instances_that_cannot_be_graded_are_not_kept() -> None:
    def check(instance: Instance, files: Mapping[str, bytes]) -> str:
        assert apply_patch(files, instance.gold_patch)["sums.py"] == FILES["sums.py"]
        return "" if int(instance.id[-1], 16) % 2 else "odd"

    report = build(package(), SubprocessRunner(), BuildOptions(count=4, seed=1, check=check))
    assert len(report.instances) == report.verdicts[Verdict.VALID] == 4
    assert len(report.rejected) == report.verdicts[Verdict.NOT_GRADABLE] > 0
    assert not {instance.id for instance in report.instances} & set(report.rejected)
    assert set(report.to_dict()["rejected"].values()) == {"odd"}


def test_check_grades_the_solution_and_the_null_patch() -> None:
    instance = build(package(), SubprocessRunner(), BuildOptions(count=1, seed=1)).instances[0]
    visible = apply_patch(FILES, instance.meta["bug_patch"])
    check = GradingCheck(allow_weak=True)
    assert check(instance, visible) == ""
    useless = apply_patch(visible, instance.gold_patch)
    assert "not pass" in check(replace(instance, fail_to_pass=("tests/test_sums.py::test_none",)), visible)
    assert check(replace(instance, gold_patch=""), useless) != ""


def test_same_seed_makes_the_same_instances_whatever_the_number_of_workers() -> None:
    one = build(package(), SubprocessRunner(), BuildOptions(count=4, seed=3, workers=1))
    two = build(package(), SubprocessRunner(), BuildOptions(count=4, seed=3, workers=2))
    other = build(package(), SubprocessRunner(), BuildOptions(count=4, seed=4))
    assert one.instances == two.instances
    assert one.instances != other.instances


def test_build_all_writes_instances_archives_and_report(tmp_path: Path) -> None:
    source = write(tmp_path / "sums-1.0", {name: data.decode() for name, data in FILES.items()})
    lines: list[str] = []
    request = BuildRequest([tmp_path / "nothing", source], tmp_path / "out", count=3, trusted=True, hide_tests=False)
    reports = run_build(request, lines.append)
    instances = read_instances(tmp_path / "out" / "instances.jsonl")
    assert len(instances) == 3
    assert "neither a folder" in reports[0].error
    for instance in instances:
        assert instance.archive == "repos/sums-1.0.tar.gz"
        original = read_tree(tmp_path / "out" / instance.archive)
        assert apply_patch(apply_patch(original, instance.meta["bug_patch"]), instance.gold_patch) == original
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["instances"] == 3
    assert report["verdicts"]["valid"] == 3
    assert [each["package"] for each in report["packages"]] == ["nothing", "sums"]
    assert any("valid" in line for line in lines)


def test_hidden_tests_leave_a_module_that_parses() -> None:
    tree = without_tests(FILES, ["tests/test_sums.py::TestClass::test_inside", "tests/test_sums.py::test_clamp[0-0]"])
    text = tree["tests/test_sums.py"].decode()
    assert "test_inside" not in text
    assert "parametrize" not in text
    assert "def test_clamp_bounds" in text
    compile(text, "test_sums.py", "exec")


BROKEN = Failure("AssertionError", "", ("4", "==", "6"), (("tests/test_sums.py", "test_total", 18),))
SYMPTOM = Symptom("tests/test_sums.py::test_total", TESTS, BROKEN)
SECRETS = Secrets(["        result += value"], ["total"], ["sums.py"])


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (Vagueness.EXAMPLE, ["from sums import total", "total([1, 2, 3])", "`6`", "`4`"]),
        (Vagueness.SENTENCE, ["`total([1, 2, 3])` should give `6`, but gives `4`"]),
        (Vagueness.HUNCH, ["`total`"]),
    ],
)
def test_issue_text_by_level(level: Vagueness, words: list[str]) -> None:
    text, reached = issue_text("sums", [SYMPTOM], SECRETS, level, random.Random(0))
    assert reached is level
    assert [word for word in words if word not in text] == []
    assert ("[1, 2, 3]" in text) is (level is not Vagueness.HUNCH)


def test_issue_text_becomes_vaguer_where_it_would_tell_too_much() -> None:
    secrets = Secrets(["total([1, 2, 3])"], ["total"], ["sums.py"])
    text, reached = issue_text("sums", [SYMPTOM], secrets, Vagueness.EXAMPLE, random.Random(0))
    assert reached is Vagueness.HUNCH
    assert "total([1, 2, 3])" not in text


@pytest.mark.parametrize(
    ("text", "allowed", "tells"),
    [
        ("x result += value y", "", True),
        ("look into sums.py", "", True),
        ("the function _inner is wrong", "", True),
        ("the function _inner is wrong", "_inner(1)", False),
        ("something is wrong", "", False),
    ],
)
def test_what_a_text_must_not_tell(text: str, allowed: str, tells: bool) -> None:
    secrets = Secrets(["    result += value", "else:"], ["C._inner"], ["src/sums.py"])
    assert tells_secret(text, secrets, allowed) is tells


def test_example_names_the_missing_exception() -> None:
    failure = Failure(
        "Failed", "DID NOT RAISE <class 'ValueError'>", None, (("tests/test_sums.py", "test_clamp_bounds", 11),)
    )
    example = example_of("tests/test_sums.py::test_clamp_bounds", TESTS, failure)
    assert example is not None
    assert (example.call, example.should_raise, example.raises) == ("clamp(1, 3, 2)", "ValueError", "")


def test_no_process_or_folder_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    run(FILES)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before
