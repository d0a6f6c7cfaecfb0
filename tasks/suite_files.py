"""Where the bundled suites are: `NAME.yaml` with its pins in `NAME.pins.json`. See `agentgym.eval.suites`."""

from __future__ import annotations

from pathlib import Path

SUITES = Path(__file__).parent / "suites"
