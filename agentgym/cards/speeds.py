"""Speeds of environments for their cards, read from a file so that cards do not vary by machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError


@dataclass(frozen=True)
class Speed:
    """Medians, in milliseconds."""

    reset_ms: float
    step_ms: float
    machine: str = ""
    """Description of the machine."""


def read_speeds(path: Path) -> Mapping[str, Speed]:
    """Return the speeds in a file of results: `rows` with `environment`, `reset_ms` and `step_ms`, and `hardware`.

    Raises:
        UsageError: The file cannot be read or has the wrong format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        hardware = content.get("hardware", {})
        return {
            row["environment"]: Speed(float(row["reset_ms"]), float(row["step_ms"]), _machine(hardware, row))
            for row in content["rows"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"cannot read speeds from {str(path)!r}: {error!r}") from error


def _machine(hardware: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Return the processor, the number of cores, and their load from other work; empty if unknown."""
    if not hardware:
        return ""
    busy = row.get("load", 0.0) > hardware["cores"]
    shared = f", shared with other work (load {row['load']:.0f})" if busy else ""
    return f"{hardware['cores']} cores of {hardware['cpu']}{shared}"
