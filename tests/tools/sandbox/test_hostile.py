"""Attacks on every backend that works here: it holds, or declares that it does not.

Marked `real`, each attack runs once, on the strongest backend of this machine; the other backends run nightly.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.tools.sandbox import Ended, Result, SandboxTier
from agentgym.tools.sandbox.backend import ProtectionLevel, Threat
from agentgym.tools.sandbox.registry import probe
from tests.tools.sandbox.attacks import ATTACKS, BY_TOPIC
from tests.tools.sandbox.attacks.host import Host, processes_named
from tests.tools.sandbox.attacks.places import Place
from tests.tools.sandbox.attacks.strike import strike
from tests.tools.sandbox.tiers import EVERY

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.name != "posix", reason="sandboxes are for POSIX systems")]

ELSEWHERE = {40, 42, 43, 47, 49, 50, 51, 52}
"""Rows of the table in other tests: graders of repositories, databases, browsers, and lifetimes."""

DECLARABLE = ("locks_common_files", "speaks_through_the_load")
"""Attacks that are harmless even if they succeed, so that they can run on backends that declare them."""
WEAK = {SandboxTier.RLIMITS}
NOWHERE_HELD = {Threat.SIDE_CHANNELS}
"""No backend can hide the machine's load."""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    machine = Host()
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def places() -> Iterator[dict[SandboxTier, Place]]:
    opened: dict[SandboxTier, Place] = {}
    yield opened
    for place in opened.values():
        place.close()


@pytest.fixture
def place(tier: SandboxTier, places: dict[SandboxTier, Place], host: Host) -> Place:
    if tier not in places:
        places[tier] = Place(tier, host)
    return places[tier]


@pytest.mark.parametrize("topic", BY_TOPIC)
@pytest.mark.parametrize("tier", EVERY, indirect=True)
def test_a_backend_withstands_every_attack_that_it_does_not_declare(topic: str, place: Place):
    breaches: list[str] = []
    for attack in BY_TOPIC[topic]:
        if not place.declared(attack):
            breaches += [f"{attack.name}: {problem}" for problem in place.strike(attack).problems]
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize("tier", EVERY, indirect=True)
def test_declared_attacks_succeed(place: Place):
    attacks = [attack for attack in ATTACKS if attack.name in DECLARABLE and place.declared(attack)]
    assert [attack.name for attack in attacks if not place.strike(attack).problems] == []


@pytest.mark.parametrize("tier", EVERY, indirect=True)
def test_a_backend_rates_every_threat_and_names_itself(place: Place):
    assert set(place.protections) == set(Threat)
    assert all(protection.how for protection in place.protections.values())
    with place.open() as sandbox:
        assert place.tier.value in sandbox.notes or place.tier is SandboxTier.REMOTE


def test_the_attacks_cover_every_case_and_threat_with_unique_names():
    assert set(range(1, 53)) - {row for attack in ATTACKS for row in attack.rows} == ELSEWHERE
    assert {threat for attack in ATTACKS for threat in attack.threats} == set(Threat)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def unheld(tier: SandboxTier) -> set[Threat]:
    return {threat for threat, protection in probe(tier).protections.items() if protection.held is ProtectionLevel.OPEN}


def test_every_attack_runs_on_some_backend_and_nearly_all_on_strong_ones():
    # A backend that does not work here may not know its protections.
    declared = [unheld(tier) - NOWHERE_HELD for tier in SandboxTier if probe(tier).protections]
    assert declared
    assert [attack.name for attack in ATTACKS if all(gaps & set(attack.threats) for gaps in declared)] == []
    for tier in set(SandboxTier) - WEAK:
        skipped = [attack.name for attack in ATTACKS if unheld(tier) & set(attack.threats)]
        assert len(skipped) <= 3, (tier, skipped)


class NoSandbox:
    """Runs programs without isolation, which the attacks must notice."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()

    def exec(self, argv: Any = None, *, code: str = "", limits: Any = None) -> Result:
        argv = argv or [sys.executable, "-I", "-c", code]
        here = self._folder.name
        variables = {**os.environ, "TMPDIR": here, "AGENTGYM_OUTLAST_S": "0"}
        run = subprocess.run(argv, cwd=here, env=variables, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return Result(run.stdout, run.stderr, run.returncode, Ended.EXITED, 0.0)

    def close(self) -> None:
        self._folder.cleanup()

    def __enter__(self) -> NoSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


NOWHERE: Any = NoSandbox
NOTICED = {
    "read_host_files": "shows the host's secret",
    "change_host_file": "changed a file of the host",
    "environments": "shows the host's secret",
    "sees_other_processes": "sees the victim",
    "tcp_to_this_machine": "TCP",
    "udp_and_names": "UDP",
    "unix_sockets_of_this_machine": "abstract",
    "disk_full_of_files": "MB",
    "daemon_of_bash": "outlived the run",
}
"""Attacks that are harmless without isolation, and words of the problems that they must cause."""


def test_an_attack_is_refused_if_it_could_do_harm(host: Host):
    attack = next(attack for attack in ATTACKS if not attack.stays_inside)
    with NOWHERE() as sandbox, pytest.raises(UsageError, match=attack.name):
        strike(attack, host, sandbox, lambda spec: NOWHERE(), "", holds_files=False)


def test_successful_attacks_are_noticed():
    machine = Host(patience_s=0.2)
    unnoticed: dict[str, tuple[str, ...]] = {}
    try:
        for attack in ATTACKS:
            if attack.name in NOTICED:
                problems = strike(attack, machine, NOWHERE(), lambda spec: NOWHERE(), "42 [] []", holds_files=True)[0]
                for survivor in processes_named(machine.token):
                    os.kill(survivor, signal.SIGKILL)
                if NOTICED[attack.name] not in "\n".join(problems.problems):
                    unnoticed[attack.name] = problems.problems
    finally:
        machine.close()
    assert unnoticed == {}
