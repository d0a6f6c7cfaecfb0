"""Attack every backend that works here, and record which attacks each one withstands.

    python -m benchmarks.hostile_matrix [--only namespaces landlock] [--table docs/hostile.md]

Attacks that a backend declares not to withstand are not run: the table has the declaration.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.tools.sandbox import SandboxTier
from benchmarks._report import RESULTS, Claim, argument_parser, write
from tests.tools.sandbox.attacks import ATTACKS
from tests.tools.sandbox.attacks.attack import Attack
from tests.tools.sandbox.attacks.host import Host
from tests.tools.sandbox.attacks.places import Place, why_not

HEADER = """# Hostile programs

Programs that attack the sandbox they run in, and the outcome on each backend. Written by
`python -m benchmarks.hostile_matrix`; the same programs are tests (`tests/tools/sandbox/test_hostile.py`), and each is
a few lines in `tests/tools/sandbox/attacks/`.

*held*: the run ended normally, nothing on this machine was read, changed, reached or killed, no process was left
behind, and the next runs, in the same sandbox and in a fresh one, were clean. *not held* alone is a fault. *declared*:
the backend itself declares in `agentgym doctor` that it does not hold; the attack was not run. *n.a.*: the backend does
not work on the machine that wrote this table.
"""


def attempt(tier: SandboxTier, host: Host) -> list[dict[str, Any]]:
    """Run every attack on a backend; return one row per attack."""
    if reason := why_not(tier):
        return [_row(tier, attack, "n.a.", why=without_paths(reason, host)) for attack in ATTACKS]
    where, rows = Place(tier, host), []
    for attack in ATTACKS:
        if declared := where.declared(attack):
            rows.append(_row(tier, attack, "not held (declared)", why=declared))
            continue
        verdict = where.strike(attack)
        outcome = "not held" if verdict.problems else "held"
        why = without_paths("; ".join(verdict.problems), host)
        rows.append(_row(tier, attack, outcome, why=why[:500], ended=verdict.ended, seconds=verdict.seconds))
        print(f"{tier:12} {attack.name:40} {outcome:20} {verdict.seconds:6.2f} s  {why[:200]}", file=sys.stderr)
    where.close()
    return rows


def without_paths(text: str, host: Host) -> str:
    """Remove details of this machine, so that a result file reveals nothing about it."""
    return re.sub(r"/(tmp|home|root|Users)/\S*", "PATH", text.replace(str(host.folder), "CANARIES"))


def _row(tier: SandboxTier, attack: Attack, outcome: str, **more: Any) -> dict[str, Any]:
    threats = [threat.value for threat in attack.threats]
    return {
        "backend": tier.value,
        "attack": attack.name,
        "cases": attack.rows,
        "threats": threats,
        "outcome": outcome,
    } | more


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown page: attacks by backends."""
    tiers = [tier.value for tier in SandboxTier]
    cells = {(row["attack"], row["backend"]): _cell(row) for row in rows}
    lines = [HEADER, "| attack | cases | " + " | ".join(tiers) + " |", "|---" * (len(tiers) + 2) + "|"]
    for attack in ATTACKS:
        cases = ", ".join(map(str, attack.rows))
        row = " | ".join(cells.get((attack.name, tier), "n.a.") for tier in tiers)
        lines.append(f"| {attack.name.replace('_', ' ')} | {cases} | {row} |")
    lines += ["", "## In sum", "", *(_sum(tier, rows) for tier in tiers)]
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, Any]) -> str:
    return {"held": "held", "not held": "**not held**", "not held (declared)": "declared"}.get(row["outcome"], "n.a.")


def _sum(tier: str, rows: Sequence[Mapping[str, Any]]) -> str:
    outcomes = [row["outcome"] for row in rows if row["backend"] == tier and row["outcome"] != "n.a."]
    if not outcomes:
        return f"- {tier}: n.a."
    declared = outcomes.count("not held (declared)")
    return f"- {tier}: {outcomes.count('held')} of {len(outcomes)} held, {declared} declared as not held"


def claims_of(rows: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Return, for each backend that works here, how many attacks it did not withstand, and how many it declares."""
    claims: list[Claim] = []
    for tier in SandboxTier:
        outcomes = [row["outcome"] for row in rows if row["backend"] == tier.value and row["outcome"] != "n.a."]
        if outcomes:
            claims.append(Claim(f"hostile_{tier.value}_held", outcomes.count("held"), ">=", 1))
            claims.append(Claim(f"hostile_{tier.value}_not_held_undeclared", outcomes.count("not held"), "<=", 0))
    return claims


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="+", type=SandboxTier, default=list(SandboxTier), help="backends to attack")
    parser.add_argument("--table", type=Path, default=RESULTS.parent.parent / "docs" / "hostile.md")
    options = parser.parse_args()
    host, rows = Host(), []
    try:
        for tier in options.only:
            rows += attempt(tier, host)
    finally:
        host.close()
    write("hostile_matrix", rows, claims_of(rows))
    options.table.write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
