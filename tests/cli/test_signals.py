"""Commands end on Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from agentgym.core.trajectory import read_jsonl
from tests.stopped import HANG_S, Command, command
from tests.terminals import at_terminal
from tests.waiting import eventually

pytestmark = pytest.mark.real

BOTH = pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


def has_begun(folder: Path, running: Command) -> bool:
    return eventually(lambda: any(folder.glob("begun-*")) or running.process.poll() is not None, HANG_S)


@BOTH
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_an_evaluation_ends_cleanly_and_can_be_resumed(tmp_path: Path, workers: str, number: int, status: int):
    out = tmp_path / "out.jsonl"
    words = ["eval", "--env", "tests.stopped:Waiting", "--set", f"folder={tmp_path}", "--out", str(out)]
    with command([*words, "--policy", "scripted", "--limit", "2", "--workers", workers], tmp_path) as evaluation:
        assert has_begun(tmp_path, evaluation)
        evaluation.press(number)
        code, output = evaluation.ended()
        assert (code, evaluation.left()) == (status, [])
    assert f"Finished trajectories are in {out}; run the same command to resume." in output.replace("\n", "")
    assert output.endswith("Interrupted.\n")
    assert "Traceback" not in output
    assert list(read_jsonl(out)) == []
    assert not list(tmp_path.glob(".*lock"))


def test_a_second_ctrl_c_ends_a_command_that_cannot_close(tmp_path: Path):
    words = ["eval", "--env", "tests.stopped:NeverClosed", "--set", f"folder={tmp_path}", "--policy", "scripted"]
    with command(words, tmp_path) as evaluation:
        assert has_begun(tmp_path, evaluation)
        evaluation.press(signal.SIGINT)
        assert evaluation.process.stdout is not None
        output = ""
        while "Ctrl-C again" not in output and (line := evaluation.process.stdout.readline()):
            output += line
        evaluation.press(signal.SIGINT)
        assert evaluation.ended()[0] == 130
        assert evaluation.left() == []


STUCK = """
import hashlib, signal, time
from agentgym.base.signals import interruptible

signal.signal(signal.SIGINT, signal.default_int_handler)
with interruptible():
    print(time.process_time(), flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2**31 - 1)
"""


def has_run(process: subprocess.Popen[str], cpu_s: float) -> bool:
    """Return whether a process has used `cpu_s` seconds of processor time."""
    used = psutil.Process(process.pid).cpu_times()
    return used.user + used.system > cpu_s


def test_a_second_ctrl_c_interrupts_a_blocking_library_call():
    with subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            until_call_s = float(process.stdout.readline())
            assert eventually(lambda: has_run(process, until_call_s + 0.2), HANG_S)
            process.send_signal(signal.SIGINT)
            assert "Ctrl-C again" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=HANG_S) == ("", "")
            assert process.returncode == 130
        finally:
            process.kill()


REPEATED = """
import os, signal, sys
from agentgym.base.signals import interruptible

with interruptible():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        print("released", flush=True)
        raise
"""


def test_repeated_sigterms_do_not_disturb_the_cleanup():
    done = subprocess.run([sys.executable, "-c", REPEATED], capture_output=True, text=True, timeout=HANG_S)
    assert (done.stdout, done.stderr, done.returncode) == ("released\n", "", 143)


FORKED = """
import os, signal
from agentgym.base.signals import interruptible

signal.signal(signal.SIGINT, signal.default_int_handler)
with interruptible():
    if (child := os.fork()) == 0:
        for _ in range(2):
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                pass
        os._exit(0)
    os.waitpid(child, 0)
    print("alive", flush=True)
"""


def test_signals_of_a_forked_process_do_not_reach_its_parent():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=HANG_S)
    assert (done.stdout, done.stderr, done.returncode) == ("alive\n", "", 0)


JUST_BEFORE = """
import ctypes, functools, readline, signal, sys
from agentgym.base.signals import interruptible

signal.signal(signal.SIGINT, signal.default_int_handler)
# readline calls this after it has shown the prompt. In C code, Python records a signal without handling it.
readline.set_pre_input_hook(functools.partial(ctypes.CDLL(None)["raise"], int(sys.argv[1])))
with interruptible():
    input("> ")
"""


@BOTH
def test_a_signal_just_before_a_blocking_read_ends_the_command(number: int, status: int):
    readline = pytest.importorskip("readline")
    if not hasattr(readline, "set_pre_input_hook"):
        pytest.skip("needs GNU readline")
    assert at_terminal(JUST_BEFORE, [str(int(number))]) == ("> ", status)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "words", [["serve", "env", "guess"], ["gateway", "--policy", "tests.interop.speaking:make_halving"]]
)
def test_a_server_ends_with_success_and_cleans_up(tmp_path: Path, words: list[str], number: int):
    pytest.importorskip("fastapi", reason="needs the [serve] extra")
    httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")
    with command(words, tmp_path) as server:
        assert server.process.stdout is not None
        while "Listening on" not in (line := server.process.stdout.readline()):
            assert line
        httpx.get(line.split()[-1], trust_env=False)  # it listens before it serves
        server.press(number)
        assert server.ended() == (0, "")
        assert server.left() == []
