"""Fresh interpreters that import what this process imports, and run nothing else when they start."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_CODE = "import sys; sys.path[:] = {paths!r}; import runpy; runpy.run_module({module!r}, None, '__main__', True)"


def command_of(module: str, *arguments: str, paths: Sequence[str] | None = None) -> list[str]:
    """Return the command that runs a module in a fresh interpreter with this process's module search path.

    The path is set after the interpreter has started: through `PYTHONPATH`, it would run a `sitecustomize.py` of the
    working directory.

    Args:
        module: The module's name.
        arguments: Its arguments.
        paths: The module search path; by default that of this process.
    """
    entries = [os.path.abspath(path or os.curdir) for path in (sys.path if paths is None else paths)]
    code = _CODE.format(paths=list(dict.fromkeys(entries)), module=module)
    return [sys.executable, "-P", "-c", code, *arguments]
