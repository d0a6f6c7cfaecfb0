"""Stands in for `agentgym.tasks.swe.pytest_folder` where an exported task is judged: it brings its own pytest."""

from __future__ import annotations

from pathlib import Path

_folders: list[Path] = []


def use(folder: Path) -> None:
    """Set the folder that pytest is in."""
    _folders[:] = [folder]


def pytest_folder() -> Path:
    """Return the folder with pytest and what it requires."""
    return _folders[0]


def versions() -> str:
    """Return a fixed text: an exported task always uses the same pytest."""
    return "exported"
