"""The distribution contains exactly the files of the packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.waiting import HANG_S

ROOT = Path(__file__).parents[2]
ROOMS = ("envs", "tasks", "tools", "trainers")


def shipped() -> set[str]:
    """Installed path of every file of the packages."""
    modules = set()
    for top in ("agentgym", *ROOMS):
        for path in (ROOT / top).rglob("*"):
            relative = path.relative_to(ROOT)
            behind_link = top == "agentgym" and relative.parts[1] in ROOMS
            if path.is_file() and not behind_link and "__pycache__" not in relative.parts:
                modules.add(("" if top == "agentgym" else "agentgym/") + relative.as_posix())
    return modules


def test_links_point_to_the_packages():
    for room in ROOMS:
        link = ROOT / "agentgym" / room
        # A checkout without links has a small file instead.
        assert os.readlink(link) == f"../{room}" if link.is_symlink() else not link.is_dir()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built through the source distribution, from a checkout without links or leftovers."""
    checkout = tmp_path_factory.mktemp("checkout")
    links = {str(ROOT / "agentgym" / room) for room in ROOMS}

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name == "__pycache__" or os.path.join(folder, name) in links]

    for top in ("agentgym", *ROOMS):
        shutil.copytree(ROOT / top, checkout / top, ignore=left_out)
    for name in (
        "pyproject.toml",
        "setup.py",
        "LICENSE",
        "MANIFEST.in",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
    ):
        shutil.copy(ROOT / name, checkout)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    [built] = (checkout / "dist").glob("*.whl")
    return built


@pytest.mark.real
def test_the_wheel_contains_every_file_and_no_other(wheel: Path):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == shipped()
