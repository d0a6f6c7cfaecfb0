"""Helpers for the tests of other packages' environments."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from typing import Any

import pytest

from agentgym.check import CheckStatus, run_checks
from tests.interop.guarantees import MEASURED

TOLD = MEASURED / "theirs"
"""Recorded caveats of other packages' environments, one file per class."""


def imported(module: str) -> Any:
    """Return a module of another package, or skip the tests of this file."""
    return pytest.importorskip(module, reason=f"{module}: not in this environment (see .ci/peers)")


def failed_checks(target: str, kwargs: dict[str, Any], *only: str) -> set[str]:
    """Return the names of the guarantees that an environment breaks."""
    report = run_checks(target, kwargs, only=only or None, timeout_s=300)
    return {row.name for row in report.rows if row.status in (CheckStatus.FAIL, CheckStatus.ERROR)}


def named_checks(env: Any) -> set[str]:
    """Return the checks in an environment's caveats."""
    return {caveat.check for caveat in env.caveats() if caveat.check}


def hold_caveats(package: str, example: str, env: Any) -> None:
    """Compare an environment's caveats with the recorded ones.

    `AGENTGYM_MEASURE=write` records them; `python -m tests.interop.table` writes them to the page.

    Args:
        package: Name of the distribution that the environment is of.
        example: Which of its environments this is.
        env: The environment.
    """
    caveats = [*map(str, env.caveats())]
    file = TOLD / f"{type(env).__name__}.json"
    pinned = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"examples": {}}
    if os.environ.get("AGENTGYM_MEASURE") == "write":
        pinned = {"package": f"{package} {version(package)}", "examples": {**pinned["examples"], example: caveats}}
        file.write_text(json.dumps(pinned, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert pinned["examples"].get(example) == caveats
