"""Task sources (generators and loaders: data, not behaviour), and the folder of the bundled suites."""

from __future__ import annotations

from pathlib import Path

SUITES = Path(__file__).parent / "suites"
"""The bundled suites: `NAME.yaml`, with pins in `NAME.pins.json` (see `agentgym.eval.suites`)."""
