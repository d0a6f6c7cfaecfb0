"""Facts about this machine and what is installed on it: versions, programs, accelerators, missing extras.

Imports no heavy packages, and gives every program it calls a time limit.
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

from packaging.requirements import Requirement

from agentgym.base.errors import UsageError

_DEADLINE_S = 5.0
_DISTRIBUTION = "agentgym-suite"
_PACKAGES = ("torch", "transformers", "trl", "vllm", "playwright")


@dataclass(frozen=True)
class Fact:
    """A component of this machine. `found` is its version, empty if it is missing."""

    name: str
    found: str
    about: str = ""


@dataclass(frozen=True)
class MissingPackages:
    """An extra, with those of its packages that are missing or too old."""

    extra: str
    packages: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that installs them."""
        return f"pip install '{_DISTRIBUTION}[{self.extra}]'"


def facts() -> list[Fact]:
    """Return facts about everything on this machine that agentgym can use."""
    return [
        Fact("agentgym", installed(_DISTRIBUTION) or "from source"),
        Fact("python", platform.python_version(), platform.python_implementation()),
        Fact("system", f"{platform.system()} {platform.release()}", f"{os.cpu_count()} processors"),
        *(Fact(name, installed(name)) for name in _PACKAGES),
        Fact("CUDA", _cuda_of_torch(), "; ".join(_accelerators()) or "no accelerator seen"),
        Fact("docker", _version_of(["docker", "--version"]), "the client; its daemon is asked under sandboxes"),
        Fact("chromium", _chromium()),
    ]


def missing_extras(without: Iterable[str] = ("dev", "docs")) -> list[MissingPackages]:
    """Return the extras that are incomplete or too old, except those in `without`."""
    try:
        about = metadata.metadata(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return []
    required = [Requirement(line) for line in about.get_all("Requires-Dist", ())]
    extras = [extra for extra in about.get_all("Provides-Extra", ()) if extra not in without]
    missing = {extra: tuple(need.name for need in _only_with(extra, required) if not _is_met(need)) for extra in extras}
    return [MissingPackages(extra, packages) for extra, packages in missing.items() if packages]


def _only_with(extra: str, required: Iterable[Requirement]) -> list[Requirement]:
    """Return the requirements of an extra on this machine, beyond the base requirements."""
    marked = [(need, need.marker) for need in required if need.marker is not None]
    return [need for need, marker in marked if marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})]


def _is_met(requirement: Requirement) -> bool:
    version = installed(requirement.name)
    return bool(version) and requirement.specifier.contains(version, prereleases=True)


def installed(distribution: str) -> str:
    """Return the version of an installed distribution, or an empty string."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _version_of(command: Sequence[str]) -> str:
    """Return a program's version: the number in its output, or else the first line."""
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
    """Return the CUDA version that torch was built for. Read from its files, because importing torch takes seconds."""
    spec = find_spec("torch")
    if spec is None or not spec.origin:
        return ""
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    version = re.search(r"^cuda\b[^=]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return version[1] if version else ""


def _chromium() -> str:
    """Return the browser that environments would start; empty if none is installed or the requested one is missing."""
    from agentgym.tools.browser import choose_executables

    try:
        path = choose_executables()[0]
    except UsageError:
        return ""
    return "the one that Playwright installed" if path is None else _version_of([path, "--version"]) or path
