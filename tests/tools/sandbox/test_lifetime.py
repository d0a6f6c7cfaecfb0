"""Sandboxes leave nothing behind, even after their driver is killed or after hundreds of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentgym.tools.sandbox import SandboxTier
from tests.tools.sandbox.attacks.host import processes_named, resident_mb
from tests.tools.sandbox.attacks.places import open_on
from tests.tools.sandbox.attacks.server import SILENT_S
from tests.tools.sandbox.tiers import EVERY
from tests.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

ROOT = Path(__file__).parents[3]
MANY, WARM_UP, SLACK = 80, 15, 30
"""Numbers of sandboxes; the first ones open pools and connections. One leak per sandbox exceeds the slack, which is for
concurrent tests."""

DRIVER = """
import sys
from agentgym.tools.sandbox import SandboxTier
from tests.tools.sandbox.attacks.host import processes_named
from tests.tools.sandbox.attacks.places import open_on

tier, cell, token = sys.argv[1:]
box = open_on(SandboxTier(tier))
python, bash = box.python(), box.bash()
said = python.run(cell)
bash.run(f"sleep 60.{token} >/dev/null 2>&1 </dev/null &")
while len(processes_named(token)) < 3:
    bash.run("sleep 0.01")
print("ready", said.out, said.err, flush=True)
box.exec(["bash", "-c", f"(setsid sleep 61.{token} &); sleep 62.{token}; true"])
"""
"""A driver with two sessions with background processes, and a run with a daemon."""

CELL = """
import os, time
try:
    with open("/proc/self/comm", "w") as file:
        file.write("ag{token}")
except OSError:
    import ctypes
    ctypes.CDLL(None).prctl(15, b"ag{token}", 0, 0, 0)
if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
0
"""


@pytest.fixture
def token() -> str:
    return str(100_000_000 + os.getpid() * 97 + time.monotonic_ns() % 97)


@pytest.mark.parametrize("tier", EVERY, indirect=True)
def test_nothing_outlives_a_killed_driver(tier: SandboxTier, token: str):
    command = [sys.executable, "-c", DRIVER, tier.value, CELL.format(token=token), token]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None
            line = driver.stdout.readline()
            assert line.split()[:2] == ["ready", "0"]
            assert eventually(lambda: len(processes_named(token)) >= 7), "the programs did not start"
            started = {(pid, _started(pid)) for pid in _descendants(driver.pid)}
        finally:
            driver.send_signal(signal.SIGKILL)
    within_s = 20 + (2 * SILENT_S if tier is SandboxTier.REMOTE else 0)
    assert eventually(lambda: not processes_named(token), within_s), "programs outlived their driver"
    assert eventually(lambda: not [pid for pid, at in started if _started(pid) == at]), "helpers outlived the driver"


@pytest.mark.nightly
@pytest.mark.parametrize("tier", EVERY, indirect=True)
def test_many_sandboxes_leave_nothing_behind(tier: SandboxTier):
    def traces() -> tuple[int, ...]:
        folders = sum(len(os.listdir(place)) for place in ("/tmp", "/dev/shm", "/run"))
        mounts = Path("/proc/self/mounts").read_text().count("agentgym")
        return len(os.listdir("/proc/self/fd")), len(_descendants(os.getpid())), mounts, folders

    counts = []
    for number in (WARM_UP, MANY):
        for _ in range(number):
            with open_on(tier) as box:
                assert box.exec(code="print(1)").ok
        counts.append((traces(), resident_mb()))
    (before, resident), (_, more) = counts
    assert eventually(lambda: all(now <= then + SLACK for then, now in zip(before, traces(), strict=True)))
    assert more - resident < 5


def _stat(pid: int) -> list[str]:
    """Return the fields of a process's state after its name."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", "", *[""] * 18]


def _started(pid: int) -> str:
    """Return a process's start time (empty if it is gone), since its id may be reused."""
    fields = _stat(pid)
    return "" if fields[0] in "ZX" else fields[19]


def _descendants(pid: int) -> list[int]:
    parents: dict[str, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            parents.setdefault(_stat(int(entry))[1], []).append(int(entry))
    pids, new = [], [pid]
    while new:
        new = [child for parent in new for child in parents.get(str(parent), ())]
        pids += new
    return pids
