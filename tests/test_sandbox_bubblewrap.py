"""Bubblewrap: the host's programs, walled in; never as root, and gone with whoever started it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.errors import UsageError
from agentgym.tools.sandbox import (
    Ended,
    Sandbox,
    SandboxLimits,
    SandboxSpec,
    SandboxTier,
    Threat,
    interpreter,
    open_sandbox,
)
from agentgym.tools.sandbox.bubblewrap import BubblewrapBackend
from agentgym.tools.sandbox.bubblewrap_command import version
from agentgym.tools.sandbox.connection import greet
from agentgym.tools.sandbox.registry import probe
from tests.waiting import eventually, is_running

pytestmark = [pytest.mark.real, pytest.mark.skipif(not version(), reason="bubblewrap is not installed")]


@pytest.fixture(autouse=True)
def _works() -> None:
    found = probe(SandboxTier.BUBBLEWRAP)
    if not found.works:
        pytest.skip(found.why)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox(backend="bubblewrap") as made:
        yield made


def test_runs_sessions_and_files_work(sandbox: Sandbox):
    assert sandbox.tier is SandboxTier.BUBBLEWRAP
    result = sandbox.exec(code="import sys; print(sys.stdin.read() * 2); sys.exit(3)", stdin="ab")
    assert (result.stdout, result.exit_code) == (b"abab\n", 3)
    assert sandbox.exec(["bash", "-c", "echo a | sed s/a/b/; python -c 'print(1)'"]).stdout == b"b\n1\n"
    session = sandbox.python()
    session.run("x = 20")
    assert session.run("x + 1").stdout == b"21\n"
    sandbox.write("a/b", b"\x00\xff")
    assert sandbox.download() == {"a/b": b"\x00\xff"}


def test_a_run_is_never_root_and_sees_nothing_of_the_host(sandbox: Sandbox):
    code = f"""
import os, socket
def tried(what):
    try:
        what()
        return "done"
    except OSError as error:
        return type(error).__name__
print(os.getuid() != 0, os.environ.get("HOME"), sorted(os.listdir("/")))
print([line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd"))])
print(tried(lambda: open("/proc/sys/kernel/core_pattern", "a")), tried(lambda: open("/usr/new", "w")))
print(tried(lambda: open("/new", "w")), tried(lambda: open("/dev/new", "w")), tried(lambda: os.listdir("/root")))
print(tried(lambda: socket.socket()), tried(lambda: os.kill(1, 9)), tried(lambda: os.listdir("/proc/1/fd")))
print(os.path.exists({str(Path(__file__))!r}))
"""
    lines = sandbox.exec(code=code).out.splitlines()
    assert lines[0].startswith("True /tmp ['bin', 'dev', 'etc'")
    assert lines[1] == "['0000000000000000', '0000000000000000']"
    assert "done" not in " ".join(lines)
    assert lines[-1] == "False"


def test_the_first_process_in_a_sandbox_has_none_of_the_hosts_environment(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("A_SECRET_OF_THE_HOST", "x")
    with open_sandbox(SandboxSpec(workdir="/other"), backend="bubblewrap") as fresh:
        found = fresh.exec(["sh", "-c", "cat /proc/*/environ 2>/dev/null; env"]).out
    assert "AGENTGYM_REPLY_FD" in found
    assert "A_SECRET_OF_THE_HOST" not in found


def test_no_further_namespaces_can_be_made(sandbox: Sandbox):
    assert sandbox.exec(["unshare", "--user", "true"]).exit_code != 0


def test_nothing_that_a_run_leaves_behind_lives_on(sandbox: Sandbox):
    sandbox.exec(["bash", "-c", "(setsid nohup sleep 1000 >/dev/null 2>&1 &)"])
    assert "sleep" not in sandbox.exec(["sh", "-c", "cat /proc/[0-9]*/comm"]).out.split()


def test_the_quota_holds_for_bytes_and_for_files():
    spec = SandboxSpec(limits=SandboxLimits(disk_mb=16, files=500, wall_s=60))
    with open_sandbox(spec, backend="bubblewrap") as sandbox:
        assert sandbox.exec(["dd", "if=/dev/zero", "of=big", "bs=1M", "count=30"]).exit_code != 0
        assert sum(entry.size for entry in sandbox.list()) <= 16 << 20
        flood = sandbox.exec(code="import itertools\nfor n in itertools.count(): open(f'f{n}', 'w').close()")
        assert flood.ended is Ended.FILES


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)"])
def test_a_run_that_takes_too_long_is_ended_and_the_sandbox_lives_on(sandbox: Sandbox, code: str):
    assert sandbox.exec(code=code, limits=SandboxLimits(wall_s=1)).ended is Ended.TIMEOUT
    assert sandbox.exec(code="print(1)").stdout == b"1\n"


def test_a_template_and_readable_folders_are_there(tmp_path: Path):
    template, data = tmp_path / "template", tmp_path / "data"
    for folder in (template, data):
        folder.mkdir()
        (folder / "hello").write_text(folder.name)
    if os.geteuid() == 0:
        for parent in (tmp_path, *tmp_path.parents):
            parent.chmod(parent.stat().st_mode | 0o011)
    data.chmod(0o755)
    with open_sandbox(SandboxSpec(template=template, readable=(data,)), backend="bubblewrap") as sandbox:
        assert sandbox.read("hello") == b"template"
        assert sandbox.exec(["cat", f"{data}/hello"]).stdout == b"data"
        assert sandbox.exec(["sh", "-c", f"echo x > {data}/new"]).exit_code != 0


def test_closing_ends_all_that_runs_in_it():
    sandbox = open_sandbox(backend="bubblewrap")
    mark = f"sleep 88.{os.getpid()}"
    sandbox.bash().run(f"{mark} >/dev/null 2>&1 & until grep -qa sleep /proc/$!/cmdline; do :; done")
    assert eventually(lambda: is_running(mark))
    sandbox.close()
    assert eventually(lambda: not is_running(mark))


def test_a_sandbox_outlives_the_thread_that_opened_it():
    opened: list[Sandbox] = []
    thread = threading.Thread(target=lambda: opened.append(open_sandbox(backend="bubblewrap")))
    thread.start()
    thread.join()
    time.sleep(0.2)
    with opened[0] as sandbox:
        assert sandbox.exec(code="print(1)").stdout == b"1\n"


def test_when_the_driver_is_killed_its_sandboxes_end():
    mark = f"sleep 99.{os.getpid()}"
    program = f"""
from agentgym.tools.sandbox import open_sandbox
sandbox = open_sandbox(backend="bubblewrap")
sandbox.bash().run("{mark} >/dev/null 2>&1 & until grep -qa sleep /proc/$!/cmdline; do :; done")
print("ready", flush=True)
input()
"""
    driver = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert driver.stdout
    assert driver.stdout.readline() == b"ready\n"
    assert eventually(lambda: is_running(mark))
    driver.kill()
    driver.communicate()
    assert eventually(lambda: not is_running(mark))


def test_closing_the_backend_ends_its_sandboxes_and_may_be_done_twice():
    backend = BubblewrapBackend()
    launched = backend.start(SandboxSpec())
    greet(launched.endpoint, launched.settings, 30)
    backend.close()
    backend.close()
    assert launched.endpoint.recv(1) == b""
    launched.endpoint.close()
    launched.kill()


def test_what_cannot_be_is_refused():
    backend = BubblewrapBackend()
    with pytest.raises(UsageError, match="images"):
        backend.start(SandboxSpec(image="debian"))
    with pytest.raises(UsageError, match="readable"):
        backend.start(SandboxSpec(readable=(Path("relative"),)))


def test_the_table_of_protections_is_complete():
    assert set(probe(SandboxTier.BUBBLEWRAP).protections) == set(Threat)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_works_for_an_ordinary_user_too():
    code = (
        "from agentgym.tools.sandbox import open_sandbox\nprint(open_sandbox(backend='bubblewrap').exec(['id', '-u']))"
    )
    if interpreter.for_all_users() != interpreter.executable():
        pytest.skip("ordinary users cannot run the interpreter of these tests")
    program = f"import os; os.setgroups([]); os.setgid(61234); os.setuid(61234); exec({code!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "61234" in done.stdout, done.stderr


def test_sets_print_in_the_same_order_in_every_sandbox():
    code = "print({str(n) for n in range(50)})"
    outs = set()
    for _ in range(2):
        with open_sandbox(backend="bubblewrap") as made:
            outs |= {made.exec(code=code).stdout, made.exec(["python", "-c", code]).stdout}
    assert len(outs) == 1
