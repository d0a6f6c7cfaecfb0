"""A test module that runs snippets on several trees and fails with their results. Needs only pytest.

`probe` writes it, together with `probe.json`, into the root of a tree whose folders are the trees to compare. Each tree
gets a process that imports its package once. Each snippet runs in a fork of that process, and cannot affect the others.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REQUEST: dict[str, Any] = {}
"""The content of `probe.json`."""
RESULTS: list[Any] = []
"""The results of the snippets, tree by tree."""
PATIENCE = 3
"""Number of hanging snippets of a tree after which the time limit of the others is divided by 20."""
NAME = "<snippet>"
SLOW_S = 0.4


class ResultMessage(Exception):
    """Carries the result of a snippet to the reporter, which records the messages of failures."""


class CallRecorder:
    """Records the functions of the tree that the snippet calls directly."""

    def __init__(self, root: str):
        self._root, self.names = root, list[str]()

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        """Record a call; a profile function."""
        if event != "call" or not frame.f_code.co_filename.startswith(self._root):
            return
        above = frame.f_back
        if above is None or above.f_code.co_filename != NAME:
            return
        name = frame.f_code.co_qualname
        first = frame.f_code.co_varnames[:1]
        if "." in name and first in (("self",), ("cls",)):
            value = frame.f_locals.get(first[0])
            owner = value if isinstance(value, type) else type(value)
            name = f"{owner.__name__}.{frame.f_code.co_name}"
        self.names.append(name)


def shown(value: Any, write: Callable[[Any], str]) -> str:
    """Return a value as text; empty if the text is too long or cannot be made."""
    try:
        text = write(value)
    except Exception:  # a bug of the package
        return ""
    return text if len(text) <= REQUEST["longest"] else ""


def run(setup: str, last: str, root: str) -> dict[str, Any]:
    """Run a snippet in this process and return its result."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    printed, calls, outcome = io.StringIO(), CallRecorder(root), dict[str, Any]()
    started = time.process_time()
    with contextlib.redirect_stdout(printed):
        where = "setup"
        try:
            exec(compile(setup, NAME, "exec", dont_inherit=True), scope)
            where = "last"
            sys.setprofile(calls)
            try:
                value = eval(compile(last, NAME, "eval", dont_inherit=True), scope)
            finally:
                sys.setprofile(None)
            outcome = {"repr": shown(value, repr), "str": shown(value, str), "type": type(value).__name__}
        except Exception as error:
            outcome = {"raised": type(error).__name__, "message": shown(error, str), "where": where}
    text, slow = printed.getvalue(), time.process_time() - started > SLOW_S
    return {
        **outcome,
        "slow": slow,
        "printed": text if len(text) <= REQUEST["longest"] else "",
        "calls": calls.names[-6:],
    }


def forked(work: Callable[[], Any], seconds: float) -> Any:
    """Return the result of `work`, as JSON data, from a fork of this process; `None` if it does not end in time."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        for number, timer, limit in (
            (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, seconds),
            (signal.SIGALRM, signal.ITIMER_REAL, 3 * seconds),
        ):
            signal.signal(number, signal.SIG_DFL)
            signal.setitimer(timer, limit)
        with contextlib.suppress(BaseException), os.fdopen(write_end, "w", encoding="utf-8") as pipe:
            json.dump(work(), pipe)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    try:
        return json.loads(text)
    except ValueError:
        return None


def side(folder: str) -> list[Any]:
    """Return the results of the snippets with the package of one tree."""
    root = HERE / folder
    os.chdir(root)
    sys.path[:0] = [str(root / entry) for entry in REQUEST["python_path"]]
    own = {path.stem for entry in REQUEST["python_path"] for path in (root / entry).glob("*")}
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]
    importlib.invalidate_caches()
    for name in REQUEST["imports"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    results: list[Any] = []
    for setup, last in REQUEST["snippets"]:
        seconds = REQUEST["seconds"] * (1.0 if results.count(None) < PATIENCE else 0.05)
        results.append(forked(lambda setup=setup, last=last: run(setup, last, f"{root}/"), seconds))
    return results


def pytest_generate_tests(metafunc: Any) -> None:
    """Run all snippets while pytest collects, for one test of each."""
    REQUEST.update(json.loads((HERE / "probe.json").read_text(encoding="utf-8")))
    for folder in REQUEST["sides"]:
        RESULTS.extend(forked(lambda folder=folder: side(folder), 100.0) or [])
    metafunc.parametrize("number", range(len(RESULTS)))


def test_probe(number: int) -> None:
    """Fail with the result of one snippet."""
    raise ResultMessage(json.dumps(RESULTS[number]))
