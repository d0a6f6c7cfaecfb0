"""Runs the code of issues on trees: a script that needs nothing but Python, each block in a fork of its own.

Reads one JSON object from standard input: `trees`, folders to import from by name, and `jobs`, each a tree, code, and
whether the code was typed into the interpreter. Writes what each job shows. With `note`, a job also tells which public
functions of the tree its code calls, with what arguments and results: what a cheat would have to know.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import inspect
import io
import json
import os
import pickle
import re
import signal
import sys
import types
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

NAME = "<issue>"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def key_of(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """Return a text for a call that is the same wherever the same is called with the same."""
    told = [_told(item) for item in arguments[name.endswith("__init__") :]]
    return _ADDRESS.sub("", repr((name, told, sorted(keywords.items()))))


def _told(value: Any) -> str:
    text = repr(value)
    return f"{text}{vars(value)!r}" if _ADDRESS.search(text) and hasattr(value, "__dict__") else text


def wrapped(name: str, function: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `around(name, function, arguments, keywords)` instead."""

    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        return around(name, function, arguments, keywords)

    for attribute in ("__name__", "__qualname__", "__module__", "__doc__", "__wrapped__"):
        setattr(wrapper, attribute, function if attribute == "__wrapped__" else getattr(function, attribute, None))
    return wrapper


def wrap_all(package: str, around: Callable[..., Any]) -> None:
    """Put `around` before every function and method of a package's modules, wherever it is bound."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
    made: dict[int, Any] = {}
    for module in modules:
        for name, value in list(vars(module).items()):
            own = getattr(value, "__module__", "") or ""
            if own.partition(".")[0] != package:
                continue
            if isinstance(value, types.FunctionType) and not inspect.iscoroutinefunction(value):
                made.setdefault(id(value), wrapped(value.__qualname__, value, around))
                setattr(module, name, made[id(value)])
            elif isinstance(value, type) and id(value) not in made:
                made[id(value)] = value
                _wrap_class(value, around)


def _wrap_class(owner: type, around: Callable[..., Any]) -> None:
    for name, value in list(vars(owner).items()):
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        label = f"{owner.__qualname__}.{name}"
        with contextlib.suppress(AttributeError, TypeError):
            if isinstance(value, property) and value.fget is not None:
                setattr(owner, name, property(wrapped(label, value.fget, around), value.fset, value.fdel))
            elif isinstance(plain, types.FunctionType) and _may_be_wrapped(plain):
                changed = wrapped(label, plain, around)
                setattr(owner, name, changed if plain is value else type(value)(changed))


def _may_be_wrapped(function: types.FunctionType) -> bool:
    kept = function.__name__ in ("__new__", "__repr__", "__hash__")
    return not kept and not function.__name__.startswith("__set") and not inspect.iscoroutinefunction(function)


class Notes:
    """Notes the calls that the issue's code makes itself."""

    def __init__(self) -> None:
        self.table: dict[str, str] = {}

    def __call__(self, name: str, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a function; note its result if the issue's code calls it."""
        if sys._getframe(2).f_code.co_filename != NAME:
            return function(*arguments, **keywords)
        key = key_of(name, arguments, keywords)
        try:
            result = function(*arguments, **keywords)
        except Exception as error:
            self._keep(key, ("raises", (type(error), error.args, vars(error))))
            raise
        if isinstance(result, Iterator):
            items = list(islice(result, 200))
            self._keep(key, ("yields", items))
            return iter(items)
        self._keep(key, ("gives", result))
        return result

    def _keep(self, key: str, value: Any) -> None:
        with contextlib.suppress(Exception):
            data = pickle.dumps(value)
            pickle.loads(data)
            self.table[key] = base64.b64encode(data).decode()


def typed(code: str) -> None:
    """Run a session: the lines after the prompts, each statement by itself."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    for source in sources_of(code):
        exec(compile(source, NAME, "single", dont_inherit=True), scope)


def sources_of(code: str) -> list[str]:
    """Return the statements that were typed into a session."""
    found: list[str] = []
    for line in code.split("\n"):
        if line.startswith(">>> "):
            found.append(line[4:] + "\n")
        elif line.startswith("...") and found:
            found[-1] += line[4:] + "\n"
    return found


def run(job: dict[str, Any], folders: list[str], package: str) -> dict[str, Any]:
    """Run a job in this process and return what it shows."""
    sys.path[:0] = folders
    printed, notes, raised = io.StringIO(), Notes(), ""
    importlib.import_module(package)
    if job["note"]:
        wrap_all(package, notes)
    with contextlib.redirect_stdout(printed):
        try:
            if job["typed"]:
                typed(job["code"])
            else:
                exec(compile(job["code"], NAME, "exec", dont_inherit=True), {"__name__": "__main__"})
        except Exception as error:
            raised = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return {"printed": printed.getvalue(), "raised": raised, "table": notes.table}


def forked(work: Callable[[], Any], seconds: int) -> Any:
    """Return what `work` returns, from a fork of this process; `None` if it ends otherwise."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        signal.alarm(seconds)
        with contextlib.suppress(BaseException), os.fdopen(write_end, "w", encoding="utf-8") as pipe:
            json.dump(work(), pipe)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def main() -> None:
    """Run the jobs."""
    request = json.load(sys.stdin)
    for job in request["jobs"]:
        tree = request["trees"][job["tree"]]
        found = forked(lambda job=job, tree=tree: run(job, tree["folders"], tree["package"]), 120)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
