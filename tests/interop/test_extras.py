"""An adapter whose package is missing says in one line how to install it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from agentgym.errors import MissingExtra

ADAPTERS = {
    "verifiers": ("verifiers", "verifiers"),
    "verifiers_tasks": ("verifiers", "verifiers"),
    "openenv": ("openenv", "openenv"),
    "inspect": ("inspect_ai", "inspect"),
    "mcp": ("mcp", "mcp"),
}
"""Adapters with the package that each needs, and its extra."""


class Without:
    """Finds nothing of a package."""

    def __init__(self, package: str):
        self._package = package

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_missing_package_is_named_with_its_extra(adapter: str, monkeypatch: pytest.MonkeyPatch):
    package, extra = ADAPTERS[adapter]
    loaded = (package, f"agentgym.interop.{adapter}")
    for name in [name for name in sys.modules if any(f"{name}.".startswith(f"{one}.") for one in loaded)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Without(package), *sys.meta_path])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else pytest.fail(name))
    with pytest.raises(MissingExtra, match=rf"agentgym-suite\[{extra}\]"):
        importlib.import_module(f"agentgym.interop.{adapter}")
