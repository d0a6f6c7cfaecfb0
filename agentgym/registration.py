"""Tells Gymnasium which environments there are: the bundled ones and those of installed packages.

Gymnasium looks for no plugins itself, so importing `agentgym` is what makes `gymnasium.make("agentgym/sql-v0")` work,
whichever of the two is imported first. No environment's class is imported before one is made.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from agentgym.builtin import BUILTIN

PLUGIN_GROUP = "agentgym.envs"
"""Entry-point group in which other packages declare environments."""


def register_declared() -> frozenset[str]:
    """Register the bundled and the installed environments that are not registered yet; return the ids of all."""
    # Both are imported here, since most of what imports agentgym needs neither.
    from importlib.metadata import entry_points

    import gymnasium

    plugins = {plugin.name: (plugin.value, {}) for plugin in entry_points(group=PLUGIN_GROUP)}
    declared = plugins | dict(BUILTIN)
    for env_id, (path, kwargs) in declared.items():
        if env_id in gymnasium.registry:
            continue
        try:
            gymnasium.register(env_id, entry_point=path, kwargs=dict(kwargs))
        except gymnasium.error.Error as error:
            # Somebody else's package must not keep every other environment from being used.
            warnings.warn(f"the environment {env_id!r} ({path}) cannot be registered: {error}", stacklevel=2)
    return frozenset(declared)


def register_with_gymnasium() -> None:
    """Register now if Gymnasium is imported, else as soon as it is: importing it here would take long for nothing."""
    if "gymnasium" in sys.modules:
        register_declared()
    elif not any(isinstance(finder, _AfterGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterGymnasium())


class _AfterGymnasium(MetaPathFinder):
    """Waits for the import of Gymnasium, and registers the environments after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return Gymnasium's spec with a loader that registers; nothing for any other module."""
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
