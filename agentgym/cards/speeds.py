"""Speeds of environments, for their cards. They are measured elsewhere, so that a card does not vary by machine."""

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
    """Where they were measured."""


def read_speeds(path: Path) -> Mapping[str, Speed]:
    """Return the speeds in a file of results: `rows` with `environment`, `reset_ms` and `step_ms`, and `hardware`.

    Raises:
        UsageError: The file cannot be read, or has another form.
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
    """Return the processor, the cores that were used, and whether other work kept them busy; empty if not known."""
    if not hardware:
        return ""
    busy = row.get("load", 0.0) > hardware["cores"]
    shared = f", shared with other work (load {row['load']:.0f})" if busy else ""
    return f"{hardware['cores']} cores of {hardware['cpu']}{shared}"
