"""Packages of other projects that have adapters, with the tested versions.

They are not extras of agentgym, since they pin many dependencies and few of them can be installed side by side.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from agentgym.base.errors import MissingExtra

REQUIREMENTS = {
    "browsergym": "'browsergym-core>=0.14.3' 'browsergym-miniwob>=0.14.3' 'miniwob>=1.1'",
    "datasets": "datasets",
    "inspect_ai": "'inspect-ai>=0.3.285,<0.4'",
    "minisweagent": "'mini-swe-agent>=2.4,<3'",
    "nemo_gym": "'nemo-gym>=0.4,<0.5'",
    "openenv": "'openenv>=0.10,<0.11'",
    "reasoning_gym": "'reasoning-gym>=0.1.25'",
    "skyrl_gym": "'skyrl-gym>=0.4,<0.5'",
    "textarena": "'textarena>=0.7.4'",
    "verifiers": "'verifiers>=0.3.1,<0.5'",
    "verl": "'verl>=0.9.1,<0.10'",
    "webarena_verified": "webarena-verified==1.2.3 'playwright>=1.60'",
}
"""Arguments of `pip install` for each module."""


def require_package(module: str) -> None:
    """Raise `MissingExtra` with the install command unless a module of `REQUIREMENTS` can be imported."""
    if find_spec(module) is None:
        raise MissingExtra(f"{module!r} is not installed; run: pip install {REQUIREMENTS[module]}")


def package(name: str) -> Any:
    """Return a module of another project's package.

    Raises:
        MissingExtra: The package is not installed; the message names the install command.
    """
    require_package(name.partition(".")[0])
    return import_module(name)
