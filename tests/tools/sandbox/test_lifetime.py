"""Sandboxes leave nothing behind, even after their driver is killed or after hundreds of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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
MANY, WARM_UP = 80, 15
"""Numbers of sandboxes and runs. They exceed the largest slack, so that one leak per sandbox shows. The warm-up opens
pools and connections."""

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
def test_many_sandboxes_and_runs_leave_nothing_behind(tier: SandboxTier):
    with open_on(tier) as box:
        for use in (lambda: open_on(tier).close(), lambda: box.exec(code="print(1)")):
            for _ in range(WARM_UP):
                use()
            before, resident = eventually_steady(traces), resident_mb()
            for _ in range(MANY):
                use()
            after = eventually_steady(traces)
            assert {name: value for name, value in after.items() if value > before[name] + SLACK.get(name, 0)} == {}
            assert resident_mb() - resident < 5


SLACK = {"descriptors": 10, "folders": 30, "control groups": 60, "mounts of containers": 60}
"""Connections stay open and concurrent tests start containers, but fewer than one per sandbox."""


def traces() -> dict[str, int]:
    """Count possible leftovers of sandboxes in this process and on the machine."""
    controls = ("memory", "pids", "cpu", "unified", "")
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    of_containers = sum("docker" in place for place in places)
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "processes": len(_descendants(os.getpid())),
        "mounts": len(places) - of_containers,
        "mounts of containers": of_containers,
        "folders": sum(len(os.listdir(place)) for place in ("/tmp", "/dev/shm", "/run")),
        "control groups": sum(_folders(Path("/sys/fs/cgroup", control)) for control in controls),
    }


def _folders(place: Path) -> int:
    return sum(1 for entry in place.iterdir() if entry.is_dir()) if place.is_dir() else 0


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


def eventually_steady(count: Callable[[], dict[str, int]]) -> dict[str, int]:
    """Return the count once it is stable: pools are refilled and processes end in the background."""
    last, deadline = count(), time.monotonic() + 10
    while time.monotonic() < deadline:
        time.sleep(0.7)
        now = count()
        if now == last:
            break
        last = now
    return last
