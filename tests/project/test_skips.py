"""A skip for lack of something that CI provides counts as a failure, and so does an empty parameter list."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1].joinpath("conftest.py").read_text(encoding="utf-8")
pytestmark = pytest.mark.real

WANTING = {
    "module": 'pytest.importorskip("no_such_module", reason="needs the [train] extra")',
    "module_without_a_reason": 'pytest.importorskip("no_such_module")',
    "mark": '@pytest.mark.skipif(True, reason="needs a Chromium (playwright install chromium)")\ndef test(): pass',
    "inside": "def test(): pytest.skip('run first: eval \"$(.ci/docker start)\"')",
    "fixture": ("@pytest.fixture\ndef image(): pytest.skip('AGENTGYM_TEST_IMAGE is not set')\n\ndef test(image): pass"),
}
DECLARED = "def test(): pytest.skip('rlimits: files is open: it can read what its user can')"
EMPTY = "@pytest.mark.parametrize('case', [])\ndef test(case): pass"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Outcomes of test files under this project's conftest, with skips allowed and refused."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nempty_parameter_set_mark = fail_at_collect\n", encoding="utf-8")
    for name, source in {**WANTING, "declared": DECLARED, "empty": EMPTY}.items():
        (folder / f"test_{name}.py").write_text(f"import pytest\n\n{source}\n", encoding="utf-8")
    return {skips: run(folder, skips) for skips in ("allow", "refuse")}


def run(folder: Path, skips: str) -> dict[str, str]:
    report = folder / f"{skips}.xml"
    # Plain pytest: a second xdist would want the first one's workers.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", f"--junitxml={report}"]
    environment = {**os.environ, "AGENTGYM_TEST_SKIPS": skips}
    arguments = [*command, "--continue-on-collection-errors"]
    subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, check=False, timeout=240)
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return {f"{case.get('classname')} {case.get('name')}": child.tag for case in cases for child in case or [case]}


def of(outcomes: dict[str, str], name: str) -> str:
    [outcome] = [outcome for case, outcome in outcomes.items() if f"test_{name}" in case.split()]
    return outcome


def test_only_declared_weaknesses_may_skip_and_an_empty_list_fails(
    outcomes: dict[str, dict[str, str]], pytestconfig: pytest.Config
):
    allowed, refused = outcomes["allow"], outcomes["refuse"]
    assert {name: of(allowed, name) for name in WANTING} == dict.fromkeys(WANTING, "skipped")
    assert {name for name in WANTING if of(refused, name) in ("failure", "error")} == set(WANTING)
    assert (of(refused, "declared"), of(allowed, "empty")) == ("skipped", "error")
    assert pytestconfig.getini("empty_parameter_set_mark") == "fail_at_collect"
