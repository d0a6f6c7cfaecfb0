"""Results of a run of hidden tests, from forged replies: no sandbox is needed."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Collection
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


class ForgedSandbox:
    """A sandbox whose run replies with prepared results, signed with the key of the request."""

    workdir = "/work"

    def __init__(
        self,
        outcomes: dict[int, tuple[str, str]] | None = None,
        *,
        exit_code: int = 0,
        reported: int | None = 0,
        uncollected: Collection[str] = (),
        ended: Ended = Ended.EXITED,
        signal: int | None = None,
        tier: SandboxTier = SandboxTier.NAMESPACES,
        reply_to: Callable[[list[Any]], list[Any]] = lambda select: select,
    ):
        self.tier, self._reply_to = tier, reply_to
        self._outcomes, self._exit_code, self._reported = outcomes or {}, exit_code, reported
        self._uncollected, self._ended, self._signal = uncollected, ended, signal
        self.uploaded: dict[str, bytes] = {}
        self.request: dict[str, Any] = {}

    def upload(self, files: dict[str, bytes]) -> None:
        self.uploaded |= files

    def exec(self, *, code: str, stdin: bytes, limits: object) -> Result:
        self.request = json.loads(stdin)
        key = bytes.fromhex(self.request["key"])
        records = [["uncollected", packed(path), packed("SyntaxError")] for path in self._uncollected]
        # Cases are requested by id, or by number if the ids would reveal their content.
        tests = sorted(self._reply_to(self.request["select"]), key=lambda test: str(test[1]))
        for index, (name, how) in enumerate(tests):
            case = name if isinstance(how, str) else f"{name}[changed{how}]"
            number = how if isinstance(how, int) else index
            letters, words = self._outcomes.get(index, P)
            records.append(["test", packed(case), str(number), letters, words, "5" if "f" in letters else "", ""])
        if self._reported is not None:
            records.append(["end", str(self._reported)])
        lines = ["\t".join([str(number), *parts]) for number, parts in enumerate(records)]
        signed = [f"{line}\t{hmac.new(key, line.encode(), hashlib.sha256).hexdigest()}\n" for line in lines]
        exit_code = self._exit_code if self._ended is Ended.EXITED else None
        return Result(b"", b"", exit_code, self._ended, 0.1, self._signal, reply="".join(signed).encode())


def judged(sandbox: ForgedSandbox, forms: Collection[ChangedForm] = (), manner: Manner = Manner.RENAMED) -> TestRun:
    return run_hidden(cast(Sandbox, sandbox), HIDDEN, pytest="/pytest", forms=forms, manner=manner)


def test_honest_results_are_accepted():
    passing = judged(ForgedSandbox())
    assert (dict(passing.statuses), passing.tampered, passing.error) == (dict.fromkeys(HIDDEN.tests, "passed"), (), "")
    failing = judged(ForgedSandbox({0: F}, exit_code=1, reported=1))
    assert (sorted(failing.statuses.values()), failing.tampered) == (["failed", "passed", "passed"], ())
    assert judged(ForgedSandbox(uncollected=["u.py"], exit_code=2, reported=2)).uncollected == {"u.py": "SyntaxError"}


@each_row(
    "sandbox, sign, error",
    [
        (ForgedSandbox(exit_code=1, reported=0), "the process ended with 1, the run said 0", ""),
        (ForgedSandbox(exit_code=1, reported=1), "pytest exited with 1", ""),
        (ForgedSandbox(exit_code=5, reported=5), "pytest exited with 5", ""),
        (ForgedSandbox({0: F}, exit_code=0, reported=0), "pytest exited with 0", ""),
        (ForgedSandbox(uncollected=["u.py"], exit_code=0, reported=0), "pytest exited with 0", ""),
        (ForgedSandbox(uncollected=["u.py"], exit_code=1, reported=1), "", ""),
        (ForgedSandbox(uncollected=["u.py"], exit_code=2, reported=2), "", ""),
        (ForgedSandbox(reported=None, exit_code=3), "", "left early with exit code 3"),
        (ForgedSandbox(reported=None, ended=Ended.SIGNALED, signal=9), "", "ended by signal 9"),
        (ForgedSandbox(reported=None, ended=Ended.TIMEOUT), "", "ran into a limit: timeout"),
    ],
)
def test_contradictory_exit_code_is_tampering_and_incomplete_run_is_an_error(
    sandbox: ForgedSandbox, sign: str, error: str
):
    run = judged(sandbox)
    assert (bool(run.tampered), bool(run.error)) == (bool(sign), bool(error))
    assert sign in " ".join(run.tampered)
    assert error in run.error


def test_unreported_tests_are_missing():
    rows = tuple(form(row, row=row) for row in (0, 1))
    run = judged(ForgedSandbox(reply_to=lambda _: []), [form(4), *rows])
    assert run.statuses == {}
    assert {result.status for result in run.changed.values()} == {"missing"}
    assert judged(ForgedSandbox(reply_to=lambda _: [])).statuses == dict.fromkeys(HIDDEN.tests, "missing")
    assert judged(ForgedSandbox(reply_to=lambda _: [], reported=5, exit_code=5)).tampered == ()


def form(number: int, row: int | None = None) -> ChangedForm:
    if row is None:
        return ChangedForm(FunctionChange("t.py", "", "test_one", (NodeEdit(number, "opposite"),)), {"": "5"})
    return ChangedForm(FunctionChange("t.py", "", "test_rows", (), row), {f"[{3 + row}]": "5"}, {"[3]": 0, "[4]": 1})


def test_cases_with_changed_ids_are_requested_by_number():
    sandbox = ForgedSandbox()
    run = judged(sandbox, [form(0, row=1)])
    assert {how for name, how in sandbox.request["select"]} == {"id", 0, 1}
    assert set(run.statuses) == {"t.py::test_one", "t.py::test_rows[3]"}
    assert {test: result.case for test, result in run.changed.items()} == {"t.py::test_rows[4]": "[4]"}


def test_prefixes_match_the_ids_that_continue_them():
    def longer(select: list[Any]) -> list[Any]:
        return [[f"{name} b]" if how == "beginning" else name, "id"] for name, how in select]

    hidden = HiddenTests(modules={"t.py": SOURCE}, tests=("t.py::test_one",), prefixes=("t.py::test_rows[a",))
    run = run_hidden(cast(Sandbox, ForgedSandbox(reply_to=longer)), hidden, pytest="/pytest")
    assert run.statuses == {"t.py::test_one": "passed", "t.py::test_rows[a": "passed"}


@each_row("manner", Manner)
def test_manner_decides_names_files_and_assertions(manner: Manner):
    sandbox = ForgedSandbox()
    judged(sandbox, manner=manner)
    names = {name for name, _ in sandbox.request["select"]}
    assert (names == set(HIDDEN.tests)) is (manner is not Manner.RENAMED)
    assert set(sandbox.request["files"]) == (set() if manner is Manner.FILES else {"t.py", "helper.py"})
    assert sandbox.request["options"] == [f"--assert={'rewrite' if manner is Manner.FILES else 'plain'}"]
    assert sandbox.uploaded == {}
    judged(sandbox, [form(5)], manner)
    assert set(sandbox.uploaded) == ({"t.py"} if manner is Manner.FILES else set())


@each_row("tier, compiled", [(SandboxTier.NAMESPACES, True), (SandboxTier.DOCKER, False), (SandboxTier.REMOTE, False)])
def test_modules_are_compiled_only_for_the_same_interpreter(tier: SandboxTier, compiled: bool):
    sandbox = ForgedSandbox(tier=tier)
    judged(sandbox)
    assert sandbox.request["compiled"] is compiled
    assert ("import pytest" in sandbox.request["files"]["t.py"]) is not compiled


@each_row("text", ["def (", "a = '\0'", "a = '\ud800'"])
def test_module_that_does_not_compile_is_sent_as_text(text: str):
    sandbox = ForgedSandbox()
    hidden = HiddenTests(modules={"t.py": SOURCE, "broken.py": text}, tests=HIDDEN.tests)
    run_hidden(cast(Sandbox, sandbox), hidden, pytest="/pytest")
    assert sandbox.request["compiled"] is False


def test_files_of_tests_in_memory_are_empty():
    tree = {"t.py": b"seen", "helper.py": b"seen", "src.py": b"seen"}
    assert stubbed(tree, HIDDEN, Manner.NAMED) == {**tree, "t.py": b""}
    assert stubbed(tree, HIDDEN, Manner.FILES) == tree


def test_hidden_tests_can_be_selected_by_file_or_id():
    hidden = HiddenTests({}, ("a.py::one", "b.py::two"), ("b.py::three[x",))
    assert hidden.files == ("a.py", "b.py")
    assert hidden.within(["b.py"]) == HiddenTests({}, ("b.py::two",), ("b.py::three[x",))
    assert hidden.only(["a.py::one"]) == HiddenTests({}, ("a.py::one",), ())
    assert [test in hidden for test in ("a.py::one", "b.py::three[x", "b.py::three")] == [True, True, False]


@each_row(
    "status, lines, as_on_gold",
    [("failed", "5", True), ("failed", "6", False), ("passed", "5", False), ("error", "5", False)],
)
def test_changed_test_must_fail_in_the_same_lines_as_on_gold(status: str, lines: str, as_on_gold: bool):
    assert ChangedTestResult(form(4), "", status, lines).as_on_gold is as_on_gold


@each_row(
    "first, second, expected",
    [(0, 1, True), (1, 1, False), (None, 1, False), (1, None, False), (UNKNOWN_ROW, 1, False), (None, None, False)],
)
def test_forms_are_compatible_if_they_change_different_rows(first: int | None, second: int | None, expected: bool):
    forms = [ChangedForm(FunctionChange("t.py", "", "test_rows", (), row)) for row in (first, second)]
    assert compatible(*forms) is compatible(*forms[::-1]) is expected


@each_row(
    "text, parts",
    [
        ("a/t.py::test_a", ("a/t.py", "", "test_a", "")),
        ("t.py::A::B::test_a[x::y[z]]", ("t.py", "A::B", "test_a", "[x::y[z]]")),
        ("t.py", ("t.py", "", "", "")),
    ],
)
def test_node_ids_are_parsed_and_rebuilt(text: str, parts: tuple[str, ...]):
    node = NodeId.of(text)
    assert (node.path, node.scope, node.name, node.case) == parts
    assert str(node) == text
    assert node.place == parts[:3]
