"""`agentgym doctor`: reports this machine's resources, its sandboxes and their protections, and missing extras."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.base.console import console as terminal
from agentgym.tools.doctor.machine import Fact, MissingPackages, facts, missing_extras

if TYPE_CHECKING:
    from agentgym.tools.sandbox import ProbeResult, SandboxTier, Threat

_MARKS = {"held": ("●", "green"), "partly": ("◐", "yellow"), "not held": ("○", "red")}


@dataclass(frozen=True)
class Findings:
    """The state of this machine as examined by the doctor."""

    facts: Sequence[Fact]
    missing: Sequence[MissingPackages]
    probes: Sequence[ProbeResult]
    auto_tier: SandboxTier | None
    """The sandbox that `backend="auto"` selects, if any."""
    weak: frozenset[SandboxTier]
    """The sandboxes that cannot contain untrusted code."""

    @property
    def usable(self) -> bool:
        """Whether any working sandbox can contain untrusted code."""
        return any(probe.works and probe.tier not in self.weak for probe in self.probes)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
            "facts": [asdict(fact) for fact in self.facts],
            "sandboxes": [
                {
                    "name": str(probe.tier),
                    "works": probe.works,
                    "why": probe.why,
                    "holds": {
                        str(threat): {"held": str(row.held), "how": row.how}
                        for threat, row in probe.protections.items()
                    },
                }
                for probe in self.probes
            ],
            "auto": None if self.auto_tier is None else str(self.auto_tier),
            "usable": self.usable,
            "missing": [{**asdict(missing), "command": missing.command} for missing in self.missing],
        }


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="First remove containers left behind by dead processes.")
    ] = False,
) -> None:
    """Report what this machine offers and what is missing. Exits with 1 if no sandbox can contain untrusted code."""
    removed = clean_up() if clean else None
    report = examine()
    if as_json:
        typer.echo(json.dumps(report.to_dict() | ({} if removed is None else {"removed": removed}), indent=1))
    else:
        console = terminal()
        if removed is not None:
            console.print(f"Removed {len(removed)} containers of dead processes.\n")
        print_report(report, console)
    if not report.usable:
        raise typer.Exit(1)


def examine() -> Findings:
    """Examine this machine. Every sandbox is actually tried."""
    from agentgym.tools.sandbox import backends
    from agentgym.tools.sandbox.registry import WEAK, automatic

    return Findings(facts=facts(), missing=missing_extras(), probes=backends(), auto_tier=automatic(), weak=WEAK)


def clean_up() -> list[str]:
    """Remove abandoned containers and return their ids."""
    from agentgym.tools.sandbox.containers.daemon import Daemon
    from agentgym.tools.sandbox.containers.removal import reap

    return reap(Daemon())


def print_report(report: Findings, console: Console) -> None:
    """Print a report: versions, sandboxes, their protections, missing extras."""
    console.print(_facts_table(report.facts), "")
    console.print(_probes_table(report), "")
    working = [probe for probe in report.probes if probe.works]
    if working:
        console.print(_threats_table(working))
        legend = "  ".join(f"{mark} {name}" for name, (mark, _) in _MARKS.items())
        console.print(Text(f"{legend}  (details: agentgym doctor --json)", "dim"), "")
    if not report.usable:
        console.print(Text("No sandbox here can contain untrusted code.", "bold red"), "")
    for missing in report.missing:
        needs = f" needs {', '.join(missing.packages)}: "
        console.print(Text.assemble((missing.extra, "bold"), needs, (missing.command, "cyan")), soft_wrap=True)


def _facts_table(components: Sequence[Fact]) -> Table:
    table = _table("machine", "version", "")
    for fact in components:
        table.add_row(fact.name, Text(fact.found or "no", "" if fact.found else "dim"), Text(fact.about, "dim"))
    return table


def _probes_table(report: Findings) -> Table:
    table = _table("sandbox", "works", "")
    for probe in report.probes:
        works = Text("yes", "green") if probe.works else Text("no", "red")
        name = Text.assemble(str(probe.tier), (" (auto)", "green") if probe.tier == report.auto_tier else "")
        why = f"{probe.why}; only with allow_weak=True" if probe.works and probe.tier in report.weak else probe.why
        table.add_row(name, works, Text(why, "dim" if probe.works else ""))
    return table


def _threats_table(probes: Sequence[ProbeResult]) -> Table:
    table = _table("holds", *(str(probe.tier) for probe in probes), padding=1)
    for threat in dict.fromkeys(threat for probe in probes for threat in probe.protections):
        table.add_row(str(threat).replace("_", " "), *(_mark(probe, threat) for probe in probes))
    return table


def _mark(probe: ProbeResult, threat: Threat) -> Text:
    row = probe.protections.get(threat)
    return Text("") if row is None else Text(*_MARKS[row.held])


def _table(*columns: str, padding: int = 2) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, padding, 0, 0))
    for index, name in enumerate(columns):
        table.add_column(name, no_wrap=index == 0, style="bold" if index == 0 else "", overflow="fold")
    return table
