"""An adapter whose package is missing says in one line how to install it."""

from __future__ import annotations

import importlib
import sys

import pytest

from agentgym.base.errors import MissingExtra
from agentgym.interop.packages import REQUIREMENTS
from tests.rows import each_row

ADAPTERS = {
    "trainers.verifiers": "verifiers",
    "trainers.verifiers_tasks": "verifiers",
    "served.openenv": "openenv",
    "trainers.inspect": "inspect_ai",
    "trainers.nemo": "nemo_gym",
    "trainers.skyrl": "skyrl_gym",
    "trainers.verl": "verl",
    "envs.mcp": "mcp",
}
"""Adapters with the package that each needs."""


@each_row("adapter, package", ADAPTERS.items())
def test_an_error_names_the_install_command_of_a_missing_package(adapter: str, package: str):
    roots = (package, f"agentgym.interop.{adapter}")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if any(f"{name}.".startswith(f"{root}.") for root in roots)]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, package, None)
        patch.setattr("importlib.util.find_spec", lambda name: None)
        patch.setattr("agentgym.interop.packages.find_spec", lambda name: None)
        with pytest.raises(MissingExtra) as error:
            importlib.import_module(f"agentgym.interop.{adapter}")
    requirement = REQUIREMENTS.get(package, "'agentgym-suite[mcp]'")
    assert str(error.value).endswith(f"run: pip install {requirement}")
