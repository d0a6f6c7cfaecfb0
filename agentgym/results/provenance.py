"""Records how results were made: command, versions and machine."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from agentgym import __version__

_PACKAGES = ("gymnasium", "numpy", "duckdb", "torch", "transformers", "trl", "vllm", "playwright", "tantivy", "docker")


def provenance(command: Sequence[str]) -> dict[str, Any]:
    """Return the command, the time, the versions of relevant packages and the machine, as JSON data."""
    return {
        "command": shlex.join(map(_without_secrets, command)),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "agentgym": __version__,
        "python": platform.python_version(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "machine": {"system": platform.platform(), "cpu": cpu(), "cores": os.cpu_count(), "gpu": _gpu()},
    }


def _without_secrets(word: str) -> str:
    """Return a word of a command without passwords in URLs, HTTP headers, and keys in place of variable names."""
    name, equals, value = word.partition("=")
    if name.startswith("--") and equals:
        return f"{name}={_without_secrets(value)}"
    if name == "headers" or (name == "key" and not value.isidentifier()):
        return f"{name}{equals}***"
    without_password = re.sub(r"://[^/\s]*@", "://***@", word)
    return re.sub(r"(\?)[^\s?]*$", r"\1***", without_password) if "://" in word else without_password


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu() -> str:
    """Return the name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def _gpu() -> str | None:
    """Return the name of the first GPU, if torch is already imported."""
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None
