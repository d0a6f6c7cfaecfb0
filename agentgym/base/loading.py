"""Resolves `module:name`: environments, policies, dialects and task sources, bundled and third-party."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any

from agentgym.base.errors import UsageError


def load_named(path: str, what: str, fits: Callable[[Any], bool] = callable) -> Any:
    """Import the object that `path` names. Exceptions raised by the module's own code are passed on unchanged.

    Args:
        path: `module:name`.
        what: The expected kind of object, with its article, for the message.
        fits: Whether an object is of that kind.

    Raises:
        UsageError: The module or a fitting object of that name does not exist; the message lists alternatives.
    """
    module_name, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise UsageError(f"{path!r} is not of the form module:name")
    module = _module(module_name, path, what)
    value = getattr(module, name, None)
    if not fits(value):
        raise UsageError(f"{path!r} does not name {what}{_what_there_is(module, name, fits)}")
    return value


FOLDERS: list[str] = []
"""The folder of `also_look_in`, if any."""
_lock = threading.RLock()


def also_look_in(folder: str) -> None:
    """Look for modules in a folder too, but only for those that somebody names as `module:name`.

    Otherwise a file of the folder could take the place of an optional package. A folder that itself holds a named
    module stays on the module search path, because that module may import others from there later.
    """
    FOLDERS[:] = [folder]


def _import(name: str) -> ModuleType:
    if not FOLDERS or name in sys.modules:
        return import_module(name)
    with _lock:
        folders = [folder for folder in FOLDERS if folder not in sys.path]
        sys.path += folders
        try:
            return import_module(name)
        finally:
            for folder in folders:
                if folder not in _places_of(name.partition(".")[0]):
                    sys.path.remove(folder)


def _places_of(package: str) -> list[str]:
    """Return the folders that hold an imported top-level package or module, even if a virtual environment is in one."""
    module = sys.modules.get(package)
    places = [*getattr(module, "__path__", ())] or [getattr(module, "__file__", None) or ""]
    return [os.path.dirname(place) for place in places]


def _module(name: str, path: str, what: str) -> ModuleType:
    try:
        return _import(name)
    except ModuleNotFoundError as error:
        # If the module's own imports fail, pass the error on.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        missing = f"there is no module {name!r}, so {path!r} does not name {what}"
        raise UsageError(f"{missing}; is it on the Python path?") from error


def _what_there_is(module: ModuleType, name: str, fits: Callable[[Any], bool]) -> str:
    """Return the end of a sentence about a missing name: the closest name that the module defines, or all."""
    here = module.__name__
    public = {attribute: value for attribute, value in vars(module).items() if not attribute.startswith("_")}
    own = [
        attribute for attribute, value in public.items() if getattr(value, "__module__", None) == here and fits(value)
    ]
    if close := get_close_matches(name, own, n=1):
        return f"; did you mean {here}:{close[0]}?"
    return f"; {here} has {', '.join(own)}" if own else f", and {here} has none"
