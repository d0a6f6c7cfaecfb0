"""Running programs and Python source in a sandbox: results, and how runs end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from agentgym.base.errors import ToolError, UsageError
from agentgym.tools.sandbox import (
    Ended,
    Sandbox,
    SandboxSpec,
    SandboxTier,
    open_sandbox,
    open_sandbox_async,
)
from tests.rows import each_row
from tests.tools.sandbox.tiers import SPEC, open_on

pytestmark = pytest.mark.real

LIMITS = SPEC.limits


@pytest.fixture(scope="module")
def sandbox(tier: SandboxTier) -> Iterator[Sandbox]:
    with open_on(tier) as opened:
        yield opened


def test_python_source_runs_as_a_script(sandbox: Sandbox) -> None:
    code = "import sys\nprint(__name__, len(sys.argv), sys.argv[0] == __file__, sys.stdin.read())\nsys.exit(3)"
    result = sandbox.exec(code=code, stdin="input")
    assert (result.out, result.err, result.exit_code) == ("__main__ 1 True input\n", "", 3)
    assert result.ended is Ended.EXITED
    usage = sandbox.exec(code="x = bytearray(50_000_000)\nsum(range(3_000_000))").usage
    assert usage.cpu_s > 0
    assert usage.peak_memory_mb > 45


@each_row("code, error", [("if:", "SyntaxError"), (b"\xff\xfe", "Error"), ("def f(): 1 / 0\nf()", "def f(): 1 / 0")])
def test_an_error_of_the_source_is_shown(sandbox: Sandbox, code: str | bytes, error: str) -> None:
    result = sandbox.exec(code=code)
    assert (result.exit_code, error in result.err, "agentgym.tools" in result.err) == (1, True, False)


def test_programs_run_with_arguments_environment_and_folder(sandbox: Sandbox) -> None:
    sandbox.mkdir("inner")
    argv = ["bash", "-c", 'echo "$1 $X"; basename "$PWD"; cat; exit 7', "name", "it's"]
    result = sandbox.exec(argv, env={"X": "y"}, cwd="inner", stdin=b"\xff")
    assert (result.stdout, result.exit_code) == (b"it's y\ninner\n\xff", 7)
    assert sandbox.exec(["no-such-program"]).exit_code == 127


def test_invalid_arguments_are_refused(sandbox: Sandbox) -> None:
    for word in ("a\0b", "\ud800"):
        with pytest.raises(ToolError, match="remove it"):
            sandbox.exec(["echo", word])
    with pytest.raises(UsageError, match="exactly one"):
        sandbox.exec(["true"], code="1")
    with pytest.raises(UsageError, match="sequence of strings"):
        sandbox.exec("echo hi")


def test_the_reply_descriptor_is_separate_from_the_output(sandbox: Sandbox) -> None:
    code = "import os; print('out'); os.write(int(os.environ['AGENTGYM_REPLY_FD']), b'\\0answer')"
    result = sandbox.exec(code=code)
    assert (result.stdout, result.reply) == (b"out\n", b"\0answer")
    assert sandbox.exec(["bash", "-c", "echo hi >&$AGENTGYM_REPLY_FD"]).reply == b"hi\n"


def test_preloaded_modules_and_readable_folders_are_available(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("readable")
    for path in (folder, *list(folder.parents)[:2]):
        path.chmod(0o755)
    (folder / "note.txt").write_text("seen")
    with open_on(SandboxTier.NAMESPACES, SandboxSpec(preload=("yaml",), readable=(folder,), limits=LIMITS)) as sandbox:
        code = (
            "import sys; print('yaml' in sys.modules)\nimport yaml\n"
            f"print(yaml.safe_load('[1]'), open('{folder}/note.txt').read())"
        )
        result = sandbox.exec(code=code)
        assert (result.out, result.err) == ("True\n[1] seen\n", "")
        assert sandbox.exec(["bash", "-c", f"echo x > {folder}/note.txt"]).exit_code == 1


_LOOK_AROUND = """
import os, subprocess, sys
mounts = [line.split(" - ") for line in open("/proc/self/mountinfo")]
print(*sorted({rest.split()[0] for _, rest in mounts}))
print(*[name for name in ("cpuinfo", "loadavg", "meminfo", "stat", "sys", "vmstat") if os.path.exists(f"/proc/{name}")])
print(*[name for name in ("git", "gcc", "perl", "python3") if os.path.exists(f"/usr/bin/{name}")])
import ctypes, decimal, hashlib, lzma, sqlite3, ssl, zoneinfo
import yaml
print(yaml.safe_load("[1]"), zoneinfo.ZoneInfo("Europe/Rome"))
print(subprocess.run([sys.executable, "-c", "import json; print(json.dumps(1))"], capture_output=True).stdout)
print(subprocess.run("echo $((1 + 1))", shell=True, capture_output=True).stdout)
"""


def test_a_sealed_sandbox_shows_copies_of_python_and_no_file_or_counter_of_the_host() -> None:
    spec = SandboxSpec(preload=("yaml",), sealed=True, limits=LIMITS)
    with open_on(SandboxTier.NAMESPACES, spec) as sandbox:
        result = sandbox.exec(code=_LOOK_AROUND)
    assert result.err == ""
    kinds, counters, programs, *rest = result.out.split("\n")
    assert set(kinds.split()) <= {"overlay", "proc", "tmpfs"}
    assert (counters, programs) == ("", "")
    assert rest == ["[1] Europe/Rome", "b'1\\n'", "b'2\\n'", ""]


def test_a_weak_tier_must_be_allowed() -> None:
    with pytest.raises(UsageError, match="allow_weak"):
        open_sandbox(backend="rlimits")
    with pytest.raises(UsageError, match="choose one of"):
        open_sandbox(backend="chroot")


async def _use_async() -> tuple[str, str, bytes]:
    async with await open_sandbox_async(SPEC, allow_weak=True) as sandbox:
        session = await sandbox.python()
        await session.run("x = 20")
        cell = await session.run("x + 1")
        await sandbox.write("a", b"file")
        return (await sandbox.exec(code="print(5)")).out, cell.out, await sandbox.read("a")


def test_the_asynchronous_interface_works_alike() -> None:
    assert asyncio.run(_use_async()) == ("5\n", "21\n", b"file")


def test_random_numbers_differ_between_runs_and_their_forks(tier: SandboxTier) -> None:
    code = "import os, random\nif os.fork(): os.wait()\nprint(random.random(), flush=True)"
    with open_on(tier) as sandbox:
        numbers = [line for _ in range(2) for line in sandbox.exec(code=code).out.split()]
    assert len(set(numbers)) == 4


def test_sets_print_in_the_same_order_in_every_sandbox(tier: SandboxTier) -> None:
    code = "print({str(n) for n in range(50)})"
    outputs = set()
    for _ in range(2):
        with open_on(tier) as sandbox:
            outputs |= {sandbox.exec(code=code).stdout, sandbox.exec(["python", "-c", code]).stdout}
    assert len(outputs) == 1
