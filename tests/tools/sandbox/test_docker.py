"""Docker: containers are isolated, have an owner process, and are removed when that ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from agentgym.base.errors import UsageError
from agentgym.tools.sandbox import (
    Ended,
    FileProblem,
    Sandbox,
    SandboxLimits,
    SandboxSpec,
    SandboxStartFailed,
    Threat,
    open_sandbox,
)
from agentgym.tools.sandbox.containers.backend import DockerBackend
from agentgym.tools.sandbox.containers.daemon import Daemon
from agentgym.tools.sandbox.containers.hardening import Hardening, host_config
from agentgym.tools.sandbox.containers.removal import OWNER_LABEL, is_gone, labels, owner, reap
from tests.rows import each_row
from tests.waiting import eventually

pytestmark = pytest.mark.nightly

IMAGE = os.environ.get("AGENTGYM_TEST_IMAGE", "")
BARE = os.environ.get("AGENTGYM_TEST_BARE_IMAGE", "")

needs_docker = pytest.mark.docker


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    if not (IMAGE and BARE):
        pytest.skip('run first: eval "$(.ci/docker start)"')
    daemon = Daemon()
    yield daemon
    daemon.close()


@pytest.fixture
def sandbox(daemon: Daemon) -> Iterator[Sandbox]:
    with open_sandbox(SandboxSpec(image=IMAGE)) as sandbox:
        yield sandbox


@pytest.fixture
def bare(daemon: Daemon) -> Iterator[Sandbox]:
    with open_sandbox(SandboxSpec(image=BARE)) as sandbox:
        yield sandbox


def containers(daemon: Daemon, label: str = f"{OWNER_LABEL}={owner()}") -> list[str]:
    return [container["Id"] for container in daemon.api.containers(all=True, filters={"label": label})]


def test_an_owner_is_gone_when_its_process_has_ended_and_not_before():
    program = f"import {owner.__module__} as o; print(o.owner(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=PIPE, stdout=PIPE, text=True) as child:
        assert child.stdout
        label = child.stdout.readline().strip()
        assert not is_gone(label)
        child.communicate("\n")
    assert is_gone(label)
    pid, start, place = owner().split("-", 2)
    for label in (f"999999999-{start}-{place}.elsewhere", f"999999999-{start}-1.{place}", "", "somebody"):
        assert not is_gone(label)
    assert is_gone(f"{pid}-1{start}-{place}"), "another process has reused the id"


def test_containers_have_every_isolation_option():
    config = host_config(
        Hardening(), SandboxSpec(limits=SandboxLimits(total_memory_mb=100, processes=5, disk_mb=8, files=40))
    )
    assert config["network_mode"] == "none"
    assert config["cap_drop"] == ["ALL"]
    assert config["security_opt"] == ["no-new-privileges"]
    assert config["read_only"] is True
    assert config["mem_limit"] == config["memswap_limit"] == 100 << 20
    assert config["pids_limit"] < 20
    assert "size=6m,nr_inodes=30" in config["tmpfs"]["/work"]
    assert "size=2m,nr_inodes=10" in config["tmpfs"]["/tmp"]
    assert config["log_config"]["Type"] == "none"


def test_settings_that_weaken_the_isolation_are_declared():
    backend = DockerBackend(hardening=Hardening(user="0:0", network="bridge", writable_root=True))
    weak = {threat for threat, row in backend.protections.items() if row.held != "held"}
    more = {Threat.KERNEL_QUOTAS, Threat.SIDE_CHANNELS}
    assert weak == {Threat.NETWORK, Threat.PRIVILEGE, Threat.DISK, Threat.INODES} | more


@needs_docker
def test_templates_image_variables_and_readable_folders_are_available(daemon: Daemon, tmp_path: Path):
    (tmp_path / "hello").write_text("hello")
    tmp_path.chmod(0o777)
    spec = SandboxSpec(image=IMAGE, template=tmp_path, readable=(tmp_path,), environment={"WHO": "me"}, workdir="/task")
    with open_sandbox(spec) as sandbox:
        assert sandbox.read("hello") == b"hello"
        assert sandbox.exec(["sh", "-c", "echo $WHO $PATH; pwd"]).out == "me /usr/local/bin:/usr/bin:/bin\n/task\n"
        assert sandbox.exec(["sh", "-c", f"cat {tmp_path}/hello; echo x > {tmp_path}/new"]).out == "hello"
    assert not (tmp_path / "new").exists()


@needs_docker
def test_an_image_without_python_runs_programs_and_keeps_files(bare: Sandbox):
    result = bare.exec(
        ["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"x" * 300_000, limits=SandboxLimits(output_bytes=10**6)
    )
    assert (result.stdout, result.stderr, result.exit_code) == (b"x" * 300_000, b"err\n", 3)
    bare.upload({"a/b c": b"\x00\xff", "d": b""})
    assert bare.read("a/b c") == b"\x00\xff"
    assert sorted(entry.path for entry in bare.list(depth=3)) == ["a", "a/b c", "d"]
    snapshot = bare.snapshot()
    bare.remove("a")
    bare.restore(snapshot)
    assert bare.download() == {"a/b c": b"\x00\xff", "d": b""}
    for call in (lambda: bare.exec(code="print(1)"), bare.bash, lambda: bare.read("../etc/passwd")):
        with pytest.raises(FileProblem):
            call()


@needs_docker
@each_row(
    "script, ended",
    [
        ("trap '' TERM INT HUP; while :; do :; done", Ended.TIMEOUT),
        ("yes", Ended.OUTPUT),
        ("while :; do sleep 1000 & done", Ended.EXITED),
    ],
)
def test_programs_without_python_are_really_ended(bare: Sandbox, script: str, ended: Ended):
    assert bare.exec(["sh", "-c", script], limits=SandboxLimits(wall_s=3)).ended is ended
    running = bare.exec(["sh", "-c", "cat /proc/[0-9]*/comm"]).out.split()
    assert not {"yes", "sleep"} & set(running)


@needs_docker
def test_closing_a_sandbox_or_the_backend_leaves_no_container(daemon: Daemon):
    backend = DockerBackend()
    for image in (IMAGE, BARE):
        launched = backend.start(SandboxSpec(image=image))
        (container,) = backend.containers
        assert container in containers(daemon)
        launched.endpoint.close()
        launched.kill()
        assert eventually(lambda gone=container: gone not in containers(daemon))
    launched = [backend.start(SandboxSpec(image=IMAGE)) for _ in range(2)]
    ids = backend.containers
    backend.close()
    assert not ids & set(containers(daemon))
    for agent in launched:
        agent.endpoint.close()


@needs_docker
def test_containers_of_a_killed_owner_are_removed(daemon: Daemon):
    program = f"""
import sys
from agentgym.tools.sandbox import SandboxSpec, open_sandbox
from agentgym.tools.sandbox.containers.removal import owner
kept = [open_sandbox(SandboxSpec(image=image)) for image in ({IMAGE!r}, {BARE!r})]
print(owner(), flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdin=PIPE, stdout=PIPE, text=True)
    assert child.stdout
    label = f"{OWNER_LABEL}={child.stdout.readline().strip()}"
    assert len(containers(daemon, label)) == 2
    child.kill()
    child.communicate()
    assert eventually(lambda: not containers(daemon, label))


@needs_docker
def test_only_containers_of_dead_processes_are_reaped(daemon: Daemon, sandbox: Sandbox):
    pid, _, place = owner().split("-", 2)
    gone = daemon.api.create_container(IMAGE, ["cat"], labels={**labels(), OWNER_LABEL: f"{pid}-1-{place}"})["Id"]
    assert gone in reap(daemon)
    assert eventually(lambda: gone not in containers(daemon, "agentgym=1"))
    assert sandbox.health()


@needs_docker
def test_an_image_or_container_that_cannot_be_used_is_reported_and_leaves_nothing(daemon: Daemon):
    with pytest.raises(UsageError, match="docker pull nowhere:none"):
        open_sandbox(SandboxSpec(image="nowhere:none"))
    backend = DockerBackend(image=IMAGE, hardening=Hardening(runtime="no-such-runtime"))
    with pytest.raises(SandboxStartFailed, match="no-such-runtime"):
        backend.start(SandboxSpec())
    assert not backend.containers
    backend.close()
