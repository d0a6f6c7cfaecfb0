"""Commands in processes of their own that receive a signal, and environments that block them until then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from agentgym.core.toolset import tool
from tests.counter_env import Counter
from tests.waiting import HANG_S, eventually

ROOT = Path(__file__).parent.parent


class Waiting(Counter):
    """Its tool runs a program until the environment is closed; a file marks the start."""

    def __init__(self, folder: str, **kwargs: Any):
        super().__init__(**kwargs)
        self._folder = Path(folder)
        self._program: subprocess.Popen[bytes] | None = None

    @tool
    def done(self) -> str:
        """Say that the goal is reached."""
        self._program = subprocess.Popen(["sleep", "3600"])
        (self._folder / f"begun-{os.getpid()}-{id(self)}").touch()
        self._program.wait()
        return super().done()

    def release(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.wait()


class NeverClosed(Counter):
    """Cannot be closed; a file marks the attempt."""

    def __init__(self, folder: str, **kwargs: Any):
        super().__init__(**kwargs)
        self._folder = Path(folder)

    def release(self) -> None:
        (self._folder / f"begun-{id(self)}").touch()
        time.sleep(3600)


@dataclass
class Command:
    """A command that runs, in a session of its own as in a terminal."""

    process: subprocess.Popen[str]
    temporary: Path

    def press(self, number: int) -> None:
        """Send a signal as a terminal does (SIGINT: to all processes), or as a supervisor does (to this one)."""
        (os.killpg if number == signal.SIGINT else os.kill)(self.process.pid, number)

    def ended(self) -> tuple[int, str]:
        """Wait for the end; return exit status and output."""
        output, _ = self.process.communicate(timeout=HANG_S)
        return self.process.returncode, output

    def left(self) -> list[str]:
        """Return its remaining processes, after some time to end, and temporary files."""
        eventually(lambda: not self._alive())
        return [*map(str, self._alive()), *map(str, self.temporary.iterdir())]

    def _alive(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if _session(process) == self.process.pid]


def _session(process: psutil.Process) -> int | None:
    try:
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return None if is_dead else os.getsid(process.pid)
    except (psutil.Error, OSError):
        return None


@contextmanager
def command(
    words: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None, **options: Any
) -> Iterator[Command]:
    """Run `agentgym` with a folder for its temporary files; all its processes end with the block."""
    temporary = folder / "temporary"
    temporary.mkdir()
    # The test runner may ignore SIGINT, which child processes inherit.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from agentgym.cli.app import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(temporary), **(variables or {})},
        **{"cwd": ROOT, **options},
    )
    try:
        yield Command(process, temporary)
    finally:
        for descendant in psutil.process_iter():
            if _session(descendant) == process.pid:
                descendant.kill()
        process.communicate(timeout=HANG_S)
