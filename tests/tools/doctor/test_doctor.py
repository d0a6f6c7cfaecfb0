"""`agentgym doctor` reports what works, what each sandbox protects from, and what to install."""

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
from agentgym.tools.doctor.machine import Fact, MissingPackages, missing_extras
from agentgym.tools.sandbox import ProbeResult, SandboxTier, Threat
from agentgym.tools.sandbox.backend import held, not_held, partly

app = typer.Typer()
app.command()(doctor)

ROWS = {
    Threat.FILES: held("a file system of its own"),
    Threat.TOTAL_MEMORY: partly("looked at"),
    Threat.KERNEL: not_held("no filter"),
}


LANDLOCK = ProbeResult(SandboxTier.LANDLOCK, True, "tried", ROWS)


def report(
    *probes: ProbeResult, auto_tier: SandboxTier | None = None, missing: tuple[MissingPackages, ...] = ()
) -> Findings:
    return Findings(
        [Fact("python", "3.11.0"), Fact("vllm", "")], missing, probes, auto_tier, frozenset({SandboxTier.RLIMITS})
    )


def printed(findings: Findings, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_report(findings, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_report_shows_sandboxes_protections_and_missing_extras():
    probes = (ProbeResult(SandboxTier.DOCKER, False, "no daemon answers"), LANDLOCK)
    text = printed(report(*probes, auto_tier=SandboxTier.LANDLOCK))
    for words in ("no daemon answers", "(auto)", "◐"):
        assert words in text
    assert "pip install 'agentgym-suite[docker]'" in printed(
        report(missing=(MissingPackages("docker", ("docker",)),)), width=40
    )


def test_weak_sandboxes_alone_are_not_enough():
    weak, docker = ProbeResult(SandboxTier.RLIMITS, True, "processes", ROWS), ProbeResult(SandboxTier.DOCKER, True, "")
    assert not report(weak).usable
    assert "No sandbox here" in printed(report(weak))
    assert report(weak, docker).usable


def run_doctor(command: list[str], exit_code: int = 0) -> str:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def test_the_json_report_contains_every_protection(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor_command, "examine", lambda: report(LANDLOCK, auto_tier=SandboxTier.LANDLOCK))
    content: Mapping[str, Any] = json.loads(run_doctor(["--json"]))
    assert (content["auto"], content["usable"]) == ("landlock", True)
    assert content["sandboxes"][0]["holds"]["kernel"] == {"held": "not held", "how": "no filter"}


def test_the_exit_code_is_1_if_no_sandbox_works(monkeypatch: pytest.MonkeyPatch):
    refused = report(ProbeResult(SandboxTier.NAMESPACES, False, "refused"))
    monkeypatch.setattr(doctor_command, "examine", lambda: refused)
    assert "refused" in run_doctor([], exit_code=1)
    assert json.loads(run_doctor(["--json"], exit_code=1))["usable"] is False


@pytest.mark.real
def test_this_machine_is_examined_without_an_error():
    findings = examine()
    assert {probe.tier for probe in findings.probes} == set(SandboxTier)
    assert all(probe.why for probe in findings.probes)
    assert findings.auto_tier in (None, *(probe.tier for probe in findings.probes if probe.works))
    printed(findings)
    json.dumps(findings.to_dict())


def test_an_extra_is_missing_if_a_package_of_it_is_not_installed_or_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "agentgym_suite-1.dist-info"
    folder.mkdir()
    folder.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: agentgym-suite\nVersion: 1\n"
        "Provides-Extra: new\nProvides-Extra: whole\nProvides-Extra: dev\n"
        "Requires-Dist: NumPy>=1; extra == 'whole'\n"
        "Requires-Dist: nothing-of-this-name; extra == 'whole' and python_version < '3'\n"
        "Requires-Dist: numpy>=999; extra == 'new'\n"
        "Requires-Dist: nothing-of-this-name[more]; extra == 'dev' or extra == 'new'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert missing_extras() == [MissingPackages("new", ("numpy", "nothing-of-this-name"))]
