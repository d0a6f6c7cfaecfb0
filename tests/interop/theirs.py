"""What the tests of environments of other packages share."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.checks import CheckStatus, run_checks


def imported(module: str) -> Any:
    """Return a module of another package, or skip the tests of this file."""
    return pytest.importorskip(module, reason=f"{module}: not in this environment (see .ci/peers)")


def failed_checks(target: str, kwargs: dict[str, Any], *only: str) -> set[str]:
    """Return the names of the guarantees that an environment breaks."""
    report = run_checks(target, kwargs, only=only or None, timeout_s=300)
    return {row.name for row in report.rows if row.status in (CheckStatus.FAIL, CheckStatus.ERROR)}


def named_checks(env: Any) -> set[str]:
    """Return the names of the guarantees that an environment says that it breaks."""
    return {caveat.check for caveat in env.caveats() if caveat.check}
