"""Programs that attack what runs them: whichever backend works here holds them, or says that it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.errors import AgentGymError, UsageError
from agentgym.tools.sandbox import Ended, Result, SandboxTier, open_sandbox
from agentgym.tools.sandbox.protection import Threat
from tests.tools.sandbox.attacks import ATTACKS
from tests.tools.sandbox.attacks.attack import Attack
from tests.tools.sandbox.attacks.host import Host, processes_named
from tests.tools.sandbox.attacks.places import Place, why_not
from tests.tools.sandbox.attacks.strike import strike

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.name != "posix", reason="sandboxes are for POSIX systems")]

TIERS = [
    pytest.param(tier, marks=[pytest.mark.docker] if tier is SandboxTier.DOCKER else [], id=tier.value)
    for tier in SandboxTier
]

GRADER_ROWS = {40, 42, 43, 47}
"""Cases of the graders of repositories; 44 and 45 are tried in part."""
OTHER_ROWS = {49, 50}
"""The cases of databases and of browsers."""
LIFETIME_ROWS = {51, 52}


@pytest.fixture(scope="module")
def places() -> Iterator[dict[SandboxTier, Place]]:
    made: dict[SandboxTier, Place] = {}
    yield made
    for place in made.values():
        place.close()


@pytest.fixture
def arena(tier: SandboxTier, places: dict[SandboxTier, Place], host: Host) -> Place:
    if reason := why_not(tier):
        pytest.skip(reason)
    if tier not in places:
        places[tier] = Place(tier, host)
    return places[tier]


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@pytest.mark.parametrize("tier", TIERS)
def test_an_attack_is_held(tier: SandboxTier, attack: Attack, arena: Place):
    if declared := arena.declared(attack):
        pytest.skip(declared)
    verdict = arena.strike(attack)
    assert not verdict.problems, "\n".join(verdict.problems)


@pytest.mark.parametrize("name", ["locks_common_files", "speaks_through_the_load"])
@pytest.mark.parametrize("tier", TIERS)
def test_what_a_backend_declares_not_to_hold_it_does_not_hold(tier: SandboxTier, name: str, arena: Place):
    attack = next(attack for attack in ATTACKS if attack.name == name)
    if not arena.declared(attack):
        pytest.skip(f"{tier} says that it holds {name}")
    assert arena.strike(attack).problems


@pytest.mark.parametrize("tier", TIERS)
def test_a_backend_declares_every_threat_in_a_sentence(tier: SandboxTier, arena: Place):
    assert set(arena.protections) == set(Threat)
    assert all(protection.how for protection in arena.protections.values())


def test_the_weak_backend_is_refused_unless_it_is_allowed():
    if reason := why_not(SandboxTier.RLIMITS):
        pytest.skip(reason)
    with pytest.raises(AgentGymError, match="allow_weak"):
        open_sandbox(backend="rlimits")
    open_sandbox(backend="rlimits", allow_weak=True).close()


@pytest.mark.parametrize("tier", TIERS)
def test_the_notes_name_what_is_not_held(tier: SandboxTier, arena: Place):
    with arena.open() as sandbox:
        assert tier.value in sandbox.notes or tier is SandboxTier.REMOTE


def test_every_case_of_the_table_has_an_attack():
    tried = {row for attack in ATTACKS for row in attack.rows}
    assert set(range(1, 53)) - tried == GRADER_ROWS | OTHER_ROWS | LIFETIME_ROWS


def test_every_threat_has_an_attack():
    assert {threat for attack in ATTACKS for threat in attack.threats} == set(Threat)


def test_names_of_attacks_are_their_own():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


class NoSandbox:
    """Runs a program right here: what a suite of attacks must not be content with."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()

    def exec(self, argv: Any = None, *, code: str = "", limits: Any = None) -> Result:
        argv = argv or [sys.executable, "-I", "-c", code]
        here = self._folder.name
        variables = {**os.environ, "TMPDIR": here}
        run = subprocess.run(argv, cwd=here, env=variables, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return Result(run.stdout, run.stderr, run.returncode, Ended.EXITED, 0.0)

    def close(self) -> None:
        self._folder.cleanup()

    def __enter__(self) -> NoSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_an_attack_is_refused_where_it_could_do_harm(host: Host):
    attack = next(attack for attack in ATTACKS if not attack.stays_inside)
    nowhere: Any = NoSandbox
    with nowhere() as sandbox, pytest.raises(UsageError, match=attack.name):
        strike(attack, host, sandbox, lambda spec: nowhere(), "", holds_files=False)


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
"""Attacks that touch nothing here but what was made for them, and what the suite must say of them."""


@pytest.mark.parametrize("name", NOTICED)
def test_the_suite_notices_an_attack_that_succeeds(name: str, host: Host):
    attack = next(attack for attack in ATTACKS if attack.name == name)
    nowhere: Any = NoSandbox
    verdict, _ = strike(attack, host, nowhere(), lambda spec: nowhere(), "42 [] []", holds_files=True)
    for left in processes_named(host.token):
        os.kill(left, signal.SIGKILL)
    assert NOTICED[name] in "\n".join(verdict.problems)
