"""Facts about this machine and what is installed on it: versions, programs, accelerators, missing extras.

Nothing heavy is imported for it, and every program that is asked has a deadline.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from agentgym.errors import UsageError

_DEADLINE_S = 5.0
_DISTRIBUTION = "agentgym-suite"
_PACKAGES = ("torch", "transformers", "trl", "vllm", "playwright")
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+).*?;.*\bextra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True)
class Fact:
    """One thing that is here or not. `found` is empty if it is not."""

    name: str
    found: str
    about: str = ""


@dataclass(frozen=True)
class MissingPackages:
    """An extra of which packages are not installed."""

    extra: str
    packages: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that installs them."""
        return f"pip install '{_DISTRIBUTION}[{self.extra}]'"


def facts() -> list[Fact]:
    """Return what this machine has of all that agentgym can make use of."""
    return [
        Fact("agentgym", installed(_DISTRIBUTION) or "from source"),
        Fact("python", platform.python_version(), platform.python_implementation()),
        Fact("system", f"{platform.system()} {platform.release()}", f"{os.cpu_count()} processors"),
        *(Fact(name, installed(name)) for name in _PACKAGES),
        Fact("CUDA", _cuda_of_torch(), "; ".join(_accelerators()) or "no accelerator seen"),
        Fact("docker", _version_of(["docker", "--version"]), "the client; its daemon is asked under sandboxes"),
        Fact("bubblewrap", _version_of(["bwrap", "--version"])),
        Fact("chromium", _chromium()),
    ]


def missing_extras(without: Iterable[str] = ("dev",)) -> list[MissingPackages]:
    """Return the extras that are not installed in full, but for those in `without`."""
    try:
        required = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    missing: dict[str, list[str]] = {}
    for requirement in required:
        match = _REQUIREMENT.match(requirement)
        if match and match[2] not in without and not installed(match[1]):
            missing.setdefault(match[2], []).append(match[1])
    return [MissingPackages(extra, tuple(packages)) for extra, packages in missing.items()]


def installed(distribution: str) -> str:
    """Return the version of an installed distribution, or nothing."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _version_of(command: Sequence[str]) -> str:
    """Return what the program says of its version: the number if there is one."""
    answer = _ask(command)
    number = re.search(r"\d+(\.\d+)+", answer)
    return number[0] if number else answer.partition("\n")[0][:60]


def _ask(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_DEADLINE_S, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _accelerators() -> list[str]:
    answer = _ask(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"])
    return [line.strip() for line in answer.splitlines() if line.strip()]


def _cuda_of_torch() -> str:
    """Return the CUDA version torch was built for, read from its files: importing it takes seconds."""
    found = find_spec("torch")
    if found is None or not found.origin:
        return ""
    try:
        text = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    version = re.search(r"^cuda\b[^=]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return version[1] if version else ""


def _chromium() -> str:
    """The browser that environments would start; empty also where the one that is asked for is not there."""
    from agentgym.tools.browser import choose_executables

    try:
        path = choose_executables()[0]
    except UsageError:
        return ""
    return "the one that Playwright installed" if path is None else _version_of([path, "--version"]) or path
