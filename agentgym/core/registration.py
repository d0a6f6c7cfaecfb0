"""Registers environments with Gymnasium: the bundled ones and those of installed packages.

Gymnasium does not look for plugins itself, so `gymnasium.make("agentgym/sql-v0")` works once `agentgym` is imported,
before or after Gymnasium. The class of an environment is imported only when the first one is made.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import takewhile
from types import ModuleType
from typing import Any

from agentgym.base.components import CATALOG, CATALOG_ON_FILES

PLUGIN_GROUP = "agentgym.envs"
"""Entry-point group under which other packages declare environments."""


def declared_environments() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the paths of the classes of bundled and installed environments, with their arguments, by id."""
    # Imported here because most uses of agentgym do not need them.
    from importlib.metadata import entry_points

    from agentgym.base.loading import load_named

    declared: dict[str, tuple[str, Mapping[str, Any]]] = {
        plugin.name: (plugin.value, {}) for plugin in entry_points(group=PLUGIN_GROUP)
    }
    for catalog in (CATALOG, CATALOG_ON_FILES):
        declared |= load_named(catalog, "a catalog", lambda value: isinstance(value, dict))
    return declared


def common_beginning(ids: Sequence[str]) -> str:
    """Return the common prefix of ids."""
    pairs = zip(min(ids), max(ids), strict=False)
    return "".join(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def register_declared() -> frozenset[str]:
    """Register the bundled and installed environments that are not registered yet; return all their ids."""
    import gymnasium

    declared = declared_environments()
    for env_id, (path, kwargs) in declared.items():
        if env_id in gymnasium.registry:
            continue
        try:
            gymnasium.register(env_id, entry_point=path, kwargs=dict(kwargs))
        except gymnasium.error.Error as error:
            # A broken third-party package must not block the other environments.
            warnings.warn(f"the environment {env_id!r} ({path}) cannot be registered: {error}", stacklevel=2)
    return frozenset(declared)


def register_with_gymnasium() -> None:
    """Register now if Gymnasium is imported, else as soon as it is. Importing it here would be slow."""
    if "gymnasium" in sys.modules:
        register_declared()
    elif not any(isinstance(finder, _AfterGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterGymnasium())


class _AfterGymnasium:
    """Registers the environments right after Gymnasium is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return Gymnasium's spec with a loader that registers the environments; `None` for any other module."""
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                register_declared()

            spec.loader.exec_module = execute_and_register
        return spec
