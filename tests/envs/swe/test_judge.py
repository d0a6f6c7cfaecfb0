"""What is believed of a run of hidden tests: the reply of the sandbox is forged here, so that none is needed."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection
from typing import Any, cast

from agentgym.envs.swe.forms import ChangedForm, compatible
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import ChangedTestResult, HiddenTests, Manner, TestRun, run_hidden, stubbed
from agentgym.envs.swe.perturb import UNKNOWN_ROW, FunctionChange, NodeEdit
from agentgym.tools.sandbox import Ended, Result, Sandbox, SandboxTier
from tests.envs.swe.test_grading import packed
from tests.rows import each_row

SOURCE = """import pytest


def test_one():
    assert f(1) == 2


@pytest.mark.parametrize("value", [3, 4])
def test_rows(value):
    assert f(value) == 5
"""
HIDDEN = HiddenTests(
    modules={"t.py": SOURCE, "helper.py": "x = 1"},
    tests=("t.py::test_one", "t.py::test_rows[3]", "t.py::test_rows[4]"),
)
P, F = ("ppp", "passed,passed,passed"), ("pfp", "passed,failed,passed")


class Told:
    """A sandbox in which a run says what it is told to, signed with the key that it was given."""

    workdir = "/work"

    def __init__(
        self,
        outcomes: dict[int, tuple[str, str]] | None = None,
        *,
        exit_code: int = 0,
        said: int | None = 0,
        uncollected: Collection[str] = (),
        ended: Ended = Ended.EXITED,
        signal: int | None = None,
        tier: SandboxTier = SandboxTier.NAMESPACES,
    ):
        self.tier = tier
        self._outcomes, self._exit_code, self._said = outcomes or {}, exit_code, said
        self._uncollected, self._ended, self._signal = uncollected, ended, signal
        self.uploaded: dict[str, bytes] = {}
        self.request: dict[str, Any] = {}

    def upload(self, files: dict[str, bytes]) -> None:
        self.uploaded |= files

    def exec(self, *, code: str, stdin: bytes, limits: object) -> Result:
        self.request = json.loads(stdin)
        key = bytes.fromhex(self.request["key"])
        records = [["uncollected", packed(path), packed("SyntaxError")] for path in self._uncollected]
        # The cases of a function are told by their ids, or by number where ids would say what is in them.
        for at, (name, how) in enumerate(sorted(self.request["select"], key=lambda one: str(one[1]))):
            case = name if isinstance(how, str) else f"{name}[changed{how}]"
            number = how if isinstance(how, int) else at
            letters, words = self._outcomes.get(at, P)
            records.append(["test", packed(case), str(number), letters, words, "5" if "f" in letters else "", ""])
        if self._said is not None:
            records.append(["end", str(self._said)])
        lines = ["\t".join([str(number), *parts]) for number, parts in enumerate(records)]
        signed = [f"{line}\t{hmac.new(key, line.encode(), hashlib.sha256).hexdigest()}\n" for line in lines]
        exit_code = self._exit_code if self._ended is Ended.EXITED else None
        return Result(b"", b"", exit_code, self._ended, 0.1, self._signal, reply="".join(signed).encode())


def judged(told: Told, forms: Collection[ChangedForm] = (), manner: Manner = Manner.RENAMED) -> TestRun:
    return run_hidden(cast(Sandbox, told), HIDDEN, pytest="/pytest", forms=forms, manner=manner)


def test_an_honest_run_is_believed():
    found = judged(Told())
    assert (dict(found.statuses), found.tampered, found.error) == (dict.fromkeys(HIDDEN.tests, "passed"), (), "")
    failing = judged(Told({0: F}, exit_code=1, said=1))
    assert (sorted(failing.statuses.values()), failing.tampered) == (["failed", "passed", "passed"], ())


@each_row(
    "told, sign",
    [
        (Told(exit_code=1, said=0), "the process ended with 1, the run said 0"),
        (Told(exit_code=1, said=1), "pytest exited with 1"),
        (Told(exit_code=5, said=5), "pytest exited with 5"),
        (Told({0: F}, exit_code=0, said=0), "pytest exited with 0"),
        (Told(uncollected=["u.py"], exit_code=0, said=0), "pytest exited with 0"),
    ],
)
def test_an_end_that_contradicts_what_was_told_is_tampering(told: Told, sign: str):
    found = judged(told)
    assert len(found.tampered) == 1
    assert sign in found.tampered[0]


@each_row("code", [1, 2])
def test_uncollected_tests_are_reported_and_are_no_tampering(code: int):
    found = judged(Told(uncollected=["u.py"], exit_code=code, said=code))
    assert (found.uncollected, found.tampered) == ({"u.py": "SyntaxError"}, ())


@each_row(
    "told, error",
    [
        (Told(said=None, exit_code=3), "left early with exit code 3"),
        (Told(said=None, ended=Ended.SIGNALED, signal=9), "ended by signal 9"),
        (Told(said=None, ended=Ended.TIMEOUT), "ran into a limit: timeout"),
    ],
)
def test_a_run_that_did_not_come_to_its_end_is_an_error_and_no_tampering(told: Told, error: str):
    found = judged(told)
    assert error in found.error
    assert found.tampered == ()


def test_tests_of_which_nothing_is_told_are_missing():
    class Silent(Told):
        def exec(self, *, code: str, stdin: bytes, limits: object) -> Result:
            return super().exec(
                code=code, stdin=json.dumps({**json.loads(stdin), "select": []}).encode(), limits=limits
            )

    rows = tuple(form(row, row=row) for row in (0, 1))
    found = judged(Silent(), [form(4), *rows])
    assert found.statuses == {}
    assert {seen.status for seen in found.changed.values()} == {"missing"}
    assert judged(Silent()).statuses == dict.fromkeys(HIDDEN.tests, "missing")
    assert judged(Silent(said=5, exit_code=5)).tampered == (), "pytest ends with 5 where no test was run"


def form(number: int, row: int | None = None) -> ChangedForm:
    if row is None:
        return ChangedForm(FunctionChange("t.py", "", "test_one", (NodeEdit(number, "opposite"),)), {"": "5"})
    return ChangedForm(FunctionChange("t.py", "", "test_rows", (), row), {f"[{3 + row}]": "5"}, {"[3]": 0, "[4]": 1})


def test_cases_that_a_change_gives_other_ids_are_asked_for_and_told_apart_by_number():
    told = Told()
    found = judged(told, [form(0, row=1)])
    asked = {how for name, how in told.request["select"]}
    assert asked == {"id", 0, 1}
    assert set(found.statuses) == {"t.py::test_one", "t.py::test_rows[3]"}
    assert set(found.changed) == {"t.py::test_rows[4]"}
    assert found.changed["t.py::test_rows[4]"].case == "[4]"


def test_beginnings_of_ids_find_what_goes_on_after_them():
    class Longer(Told):
        def exec(self, *, code: str, stdin: bytes, limits: object) -> Result:
            request = json.loads(stdin)
            request["select"] = [
                [f"{name} b]" if how == "beginning" else name, "id"] for name, how in request["select"]
            ]
            return super().exec(code=code, stdin=json.dumps(request).encode(), limits=limits)

    hidden = HiddenTests(modules={"t.py": SOURCE}, tests=("t.py::test_one",), prefixes=("t.py::test_rows[a",))
    found = run_hidden(cast(Sandbox, Longer()), hidden, pytest="/pytest")
    assert found.statuses == {"t.py::test_one": "passed", "t.py::test_rows[a": "passed"}


@each_row("manner", Manner)
def test_how_the_tests_are_brought_in(manner: Manner):
    told = Told()
    judged(told, manner=manner)
    names = {name for name, _ in told.request["select"]}
    assert (names == set(HIDDEN.tests)) is (manner is not Manner.RENAMED)
    assert set(told.request["files"]) == (set() if manner is Manner.FILES else {"t.py", "helper.py"})
    assert told.request["options"] == [f"--assert={'rewrite' if manner is Manner.FILES else 'plain'}"]
    assert told.uploaded == {}


def test_a_changed_module_that_must_be_a_file_is_one():
    told = Told()
    node = NodeEdit(5, "opposite")
    changed = ChangedForm(FunctionChange("t.py", "", "test_one", (node,)), {"": "5"})
    judged(told, [changed], Manner.FILES)
    assert set(told.uploaded) == {"t.py"}


@each_row("tier, compiled", [(SandboxTier.NAMESPACES, True), (SandboxTier.DOCKER, False), (SandboxTier.REMOTE, False)])
def test_modules_are_compiled_only_where_the_same_interpreter_runs_them(tier: SandboxTier, compiled: bool):
    told = Told(tier=tier)
    judged(told)
    assert told.request["compiled"] is compiled
    assert ("import pytest" in told.request["files"]["t.py"]) is not compiled


@each_row("text", ["def (", "a = '\0'", "a = '\ud800'"])
def test_a_module_that_cannot_be_compiled_travels_as_text(text: str):
    told = Told()
    hidden = HiddenTests(modules={"t.py": SOURCE, "broken.py": text}, tests=HIDDEN.tests)
    run_hidden(cast(Sandbox, told), hidden, pytest="/pytest")
    assert told.request["compiled"] is False


def test_the_files_of_tests_that_travel_in_memory_are_empty():
    tree = {"t.py": b"seen", "helper.py": b"seen", "src.py": b"seen"}
    assert stubbed(tree, HIDDEN, Manner.NAMED) == {**tree, "t.py": b""}
    assert stubbed(tree, HIDDEN, Manner.FILES) == tree


def test_some_of_the_tests_are_chosen_by_file_or_by_id():
    hidden = HiddenTests({}, ("a.py::one", "b.py::two"), ("b.py::three[x",))
    assert hidden.files == ("a.py", "b.py")
    assert hidden.within(["b.py"]) == HiddenTests({}, ("b.py::two",), ("b.py::three[x",))
    assert hidden.only(["a.py::one"]) == HiddenTests({}, ("a.py::one",), ())
    assert "a.py::one" in hidden
    assert "b.py::three[x" in hidden
    assert "b.py::three" not in hidden


def test_only_what_passed_in_its_true_form_has_passed():
    run = TestRun({"a": "passed", "b": "failed"}, {"c": ChangedTestResult(form(4), "", "passed", "")})
    assert run.passed(["a", "b", "c", "d"]) == ["a"]


@each_row(
    "status, lines, as_on_gold",
    [("failed", "5", True), ("failed", "6", False), ("passed", "5", False), ("error", "5", False)],
)
def test_a_changed_test_does_as_on_right_code_if_it_fails_in_the_same_lines(status: str, lines: str, as_on_gold: bool):
    assert ChangedTestResult(form(4), "", status, lines).as_on_gold is as_on_gold


@each_row(
    "one, two, both",
    [(0, 1, True), (1, 1, False), (None, 1, False), (1, None, False), (UNKNOWN_ROW, 1, False), (None, None, False)],
)
def test_a_function_is_in_two_forms_at_once_only_if_they_change_different_rows(
    one: int | None, two: int | None, both: bool
):
    forms = [ChangedForm(FunctionChange("t.py", "", "test_rows", (), row)) for row in (one, two)]
    assert compatible(*forms) is compatible(*forms[::-1]) is both


@each_row(
    "text, parts",
    [
        ("a/t.py::test_a", ("a/t.py", "", "test_a", "")),
        ("t.py::A::B::test_a[x::y[z]]", ("t.py", "A::B", "test_a", "[x::y[z]]")),
        ("t.py", ("t.py", "", "", "")),
    ],
)
def test_ids_are_taken_apart_and_put_together_again(text: str, parts: tuple[str, ...]):
    found = NodeId.of(text)
    assert (found.path, found.scope, found.name, found.case) == parts
    assert str(found) == text
    assert found.place == parts[:3]
