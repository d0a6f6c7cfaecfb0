"""Exported Harbor folders, graded on this machine as in a container."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from agentgym.core.env import Env
from agentgym.core.task import Task
from agentgym.tasks.exporting.export import export_harbor
from tests.task_folders import BASE
from tests.waiting import HANG_S


def _for_all(path: Path) -> bool:
    return path.exists() and all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


PYTHON = next((str(path) for path in (Path(sys.executable).resolve(), Path("/usr/bin/python3")) if _for_all(path)), "")
"""An interpreter that every user may run, started without installed packages (`-S`)."""
IS_ROOT = os.geteuid() == 0
"""Whether the agent's code runs as an unprivileged user."""


def exported(env: Env, task: Task, out: Path) -> Path:
    """Write one task, and return its folder."""
    [folder] = export_harbor(env, "env", [task], out, BASE or "python:3.12-slim")
    return folder


def machine_of(folder: Path, root: Path) -> Path:
    """Copy the /app folder of the agent's image below a root and return it."""
    app, context = root / "app", folder / "environment"
    app.mkdir(parents=True)
    for line in (context / "Dockerfile").read_text().splitlines():
        match line.split():
            case ["COPY", name, place]:
                shutil.copy(context / name, root / place[1:])
            case ["ADD", name, "/app/"]:
                with tarfile.open(context / name) as packed:
                    packed.extractall(app)
            case _:
                pass
    return app


def solve(folder: Path, root: Path) -> None:
    """Run the solution below a root."""
    script = (folder / "solution/solve.sh").read_text().replace("/app", str(root / "app"))
    subprocess.run(["bash", "-c", script], check=True)


def judge(folder: Path, root: Path) -> dict[str, float]:
    """Run the tests as in a container whose file system is rooted at `root`, and return the reward."""
    if not PYTHON:
        pytest.skip("there is no Python that every user may run")
    shutil.copytree(folder / "tests", root / "tests")
    grade = [PYTHON, "-I", "-S", str(root / "tests/grade.py"), str(root)]
    ran = subprocess.run(grade, env={"PATH": os.defpath}, capture_output=True, text=True, timeout=HANG_S)
    assert ran.returncode == 0, ran.stderr
    assert not (root / "tests").exists()
    reward = json.loads((root / "logs/verifier/reward.json").read_text())
    assert float((root / "logs/verifier/reward.txt").read_text()) == reward["reward"]
    return reward
