"""Commands end on Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.core.trajectory import read_jsonl
from tests.stopped import Command, command
from tests.waiting import HANG_S, eventually

pytestmark = pytest.mark.real

BOTH = pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


def has_begun(folder: Path, running: Command) -> bool:
    return eventually(lambda: any(folder.glob("begun-*")) or running.process.poll() is not None)


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
