"""The lifecycle of sandboxes: pools, closing, crashes of the driver; nothing is left behind."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox import Ended, SandboxLost, SandboxPool, SandboxSpec, SandboxTier
from agentgym.tools.sandbox.namespaces import NamespacesBackend
from agentgym.tools.sandbox.registry import backend
from tests.tools.sandbox.tiers import HOLDING, SPEC, open_on
from tests.waiting import HANG_S, eventually

pytestmark = pytest.mark.real

_MARK = "agentgym_lifecycle_mark"


def running(mark: str) -> list[str]:
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes() and path.parent.name != str(os.getpid()):
                pids.append(path.parent.name)
        except OSError:
            continue
    return pids


def test_closing_ends_all_processes_and_leaves_nothing(tier: SandboxTier) -> None:
    mark = f"{_MARK}_{tier}_{os.getpid()}"
    sandbox = open_on(tier)
    session = sandbox.bash()
    session.run(f"(exec -a {mark} sleep 600) & exec -a {mark} sleep 600 &")
    assert eventually(lambda: session.run("sleep 0.01").ok and len(running(mark)) == 2)
    sandbox.close()
    assert eventually(lambda: not running(mark))
    assert not sandbox.health()
    if tier is not SandboxTier.NAMESPACES:
        assert eventually(lambda: not os.path.exists(sandbox.workdir))
    with pytest.raises(SandboxLost, match="closed"):
        sandbox.exec(["true"])


def test_closing_ends_a_run_in_progress(tier: SandboxTier) -> None:
    mark = f"{_MARK}_{tier}_{os.getpid()}_under_way"
    sandbox = open_on(tier)
    results: list[object] = []

    def run() -> None:
        try:
            command = ["bash", "-c", f"exec -a {mark} sleep 600"]
            results.append(sandbox.exec(command, limits=SPEC.limits.but(wall_s=600)).ended)
        except InfrastructureError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert eventually(lambda: bool(running(mark)))
    sandbox.close()
    thread.join(HANG_S)
    assert not thread.is_alive()
    assert results == [Ended.KILLED] or isinstance(results[0], SandboxLost)


@pytest.mark.parametrize("tier", HOLDING, indirect=True)
def test_a_pool_prepares_sandboxes_and_ends_them_when_closed(tier: SandboxTier) -> None:
    pool = SandboxPool(spare=2)
    first = pool.open(SPEC, backend=tier)
    second = pool.open(SPEC, backend=tier)
    kind = next(iter(pool._kinds.values()))
    assert eventually(lambda: len(kind.ready) == 2)
    third = pool.open(SPEC, backend=tier)
    for sandbox in (first, second, third):
        assert sandbox.list() == []
        sandbox.write("used", "x")
    pool.close()
    assert not any(sandbox.health() for sandbox in (first, second, third))
    with pytest.raises(UsageError, match="closed"):
        pool.open(SPEC, backend=tier)


@pytest.mark.parametrize("tier", HOLDING, indirect=True)
def test_a_forked_driver_does_not_end_its_parents_sandboxes(tier: SandboxTier) -> None:
    with open_on(tier) as sandbox:
        pid = os.fork()
        if pid == 0:
            try:
                sandbox.close()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert sandbox.exec(code="print(1)").out == "1\n"


def test_a_sandbox_that_cannot_be_created_is_reported() -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        open_on(SandboxTier.NAMESPACES, SandboxSpec(template=Path("/nowhere")))
    with pytest.raises(UsageError, match="installed package"):
        open_on(SandboxTier.NAMESPACES, SandboxSpec(preload=("no_such_module",)))
    with pytest.raises(UsageError, match="docker"):
        open_on(SandboxTier.NAMESPACES, SandboxSpec(image="debian"))


def test_a_zygote_that_died_is_replaced() -> None:
    own = SandboxSpec(limits=SPEC.limits, workdir="/own")  # the pool has no sandbox ready that dies with its zygote
    with open_on(SandboxTier.NAMESPACES, own) as sandbox:
        started = backend(SandboxTier.NAMESPACES)
        assert isinstance(started, NamespacesBackend)
        killed = [*started.zygotes()]
        for zygote in killed:
            os.kill(zygote.pid, signal.SIGKILL)
        assert eventually(lambda: not sandbox.health())
    assert eventually(lambda: not any(zygote.alive for zygote in killed))
    with open_on(SandboxTier.NAMESPACES, own) as sandbox:
        assert sandbox.exec(code="print(1)").out == "1\n"
