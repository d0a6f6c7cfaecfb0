"""`agentgym doctor`: tells what works, what each sandbox holds, and what to install."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from agentgym.tools.doctor import command as doctor_command
from agentgym.tools.doctor.command import Findings, doctor, examine, print_report
from agentgym.tools.doctor.machine import Fact, MissingPackages, facts, missing_extras
from agentgym.tools.sandbox import ProbeResult, SandboxTier, Threat
from agentgym.tools.sandbox.protection import held, not_held, partly
from tests.rows import each_row

app = typer.Typer()
app.command()(doctor)

ROWS = {
    Threat.FILES: held("a file system of its own"),
    Threat.TOTAL_MEMORY: partly("looked at"),
    Threat.KERNEL: not_held("no filter"),
}


def report(
    *probes: ProbeResult, chosen: SandboxTier | None = None, missing: tuple[MissingPackages, ...] = ()
) -> Findings:
    return Findings(
        [Fact("python", "3.11.0"), Fact("vllm", "")], missing, probes, chosen, frozenset({SandboxTier.RLIMITS})
    )


def shown(what: Findings, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_report(what, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_sandbox_is_named_with_whether_it_works_and_why():
    text = shown(
        report(
            ProbeResult(SandboxTier.DOCKER, False, "no daemon answers"),
            ProbeResult(SandboxTier.LANDLOCK, True, "tried", ROWS),
        )
    )
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "no daemon answers" in lines["docker"]
    assert lines["docker"].split()[1] == "no"
    assert lines["landlock"].split()[1] == "yes"


def test_the_one_that_auto_takes_is_marked():
    text = shown(report(ProbeResult(SandboxTier.LANDLOCK, True, "tried", ROWS), chosen=SandboxTier.LANDLOCK))
    assert "landlock (auto)" in text


def test_each_threat_has_the_mark_of_how_well_it_is_held():
    text = shown(report(ProbeResult(SandboxTier.LANDLOCK, True, "tried", ROWS)))
    marks = {line.rsplit(None, 1)[0]: line.split()[-1] for line in text.splitlines() if line.split()[-1:] != []}
    assert (marks["files"], marks["total memory"], marks["kernel"]) == ("●", "◐", "○")


def test_each_missing_extra_has_a_line_that_can_be_copied():
    text = shown(report(missing=(MissingPackages("docker", ("docker",)),)), width=40)
    assert "pip install 'agentgym-suite[docker]'" in text


def test_weak_sandboxes_alone_are_not_enough():
    weak = report(
        ProbeResult(SandboxTier.RLIMITS, True, "processes", ROWS), ProbeResult(SandboxTier.DOCKER, False, "none")
    )
    assert not weak.usable
    assert "No sandbox here" in shown(weak)
    assert report(ProbeResult(SandboxTier.RLIMITS, True, ""), ProbeResult(SandboxTier.DOCKER, True, "")).usable


@each_row("width", [80, 120])
def test_a_terminal_shows_whole_lines(width: int):
    probes = [ProbeResult(tier, True, "words " * 40, dict.fromkeys(Threat, partly("so so"))) for tier in SandboxTier]
    text = shown(report(*probes, chosen=SandboxTier.NAMESPACES), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text


def said(command: list[str], exit_code: int = 0) -> str:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def test_json_says_the_same_and_more(monkeypatch: pytest.MonkeyPatch):
    probe = ProbeResult(SandboxTier.LANDLOCK, True, "tried", ROWS)
    monkeypatch.setattr(doctor_command, "examine", lambda: report(probe, chosen=SandboxTier.LANDLOCK))
    content: Mapping[str, Any] = json.loads(said(["--json"]))
    assert (content["auto"], content["usable"]) == ("landlock", True)
    assert content["sandboxes"][0]["holds"]["kernel"] == {"held": "not held", "how": "no filter"}


def test_it_ends_with_1_if_no_sandbox_works(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        doctor_command, "examine", lambda: report(ProbeResult(SandboxTier.NAMESPACES, False, "refused"))
    )
    assert "refused" in said([], exit_code=1)
    assert json.loads(said(["--json"], exit_code=1))["usable"] is False


@pytest.mark.real
def test_this_machine_is_examined_without_an_error():
    findings = examine()
    assert {probe.tier for probe in findings.probes} == set(SandboxTier)
    assert all(probe.why for probe in findings.probes)
    assert findings.chosen in (None, *(probe.tier for probe in findings.probes if probe.works))
    shown(findings)
    json.dumps(findings.to_dict())


@pytest.mark.real
def test_the_facts_name_python_and_what_is_not_here_is_empty():
    versions = {fact.name: fact.found for fact in facts()}
    assert versions["python"].startswith("3.")
    assert {"torch", "trl", "vllm", "docker", "chromium", "playwright", "CUDA"} <= versions.keys()


@pytest.mark.real
def test_the_browser_is_the_one_that_environments_would_start(tmp_path, monkeypatch):
    browser = tmp_path / "browser"
    browser.write_text("#!/bin/sh\necho Chromium 1.2.3\n")
    browser.chmod(0o755)
    monkeypatch.setenv("AGENTGYM_CHROMIUM", str(browser))
    assert {fact.name: fact.found for fact in facts()}["chromium"] == "1.2.3"
    monkeypatch.setenv("AGENTGYM_CHROMIUM", str(tmp_path / "gone"))
    assert {fact.name: fact.found for fact in facts()}["chromium"] == ""


def test_an_extra_is_missing_if_a_package_of_it_is_not_installed_or_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "agentgym_suite-1.dist-info"
    folder.mkdir()
    folder.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: agentgym-suite\nVersion: 1\n"
        "Provides-Extra: new\nProvides-Extra: whole\nProvides-Extra: dev\n"
        "Requires-Dist: not-there-at-all\n"
        "Requires-Dist: NumPy>=1; extra == 'whole'\n"
        "Requires-Dist: nothing-of-this-name; extra == 'whole' and python_version < '3'\n"
        "Requires-Dist: numpy>=999; extra == 'new'\n"
        "Requires-Dist: nothing-of-this-name[more]; extra == 'dev' or extra == 'new'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert missing_extras() == [MissingPackages("new", ("numpy", "nothing-of-this-name"))]


def test_the_extras_of_developers_are_no_concern():
    assert "dev" not in {each.extra for each in missing_extras()}
    assert all(each.packages and each.extra in each.command for each in missing_extras())
