"""Runs Python source in this (freshly forked) interpreter as `python script.py` would."""

from __future__ import annotations

import _thread
import atexit
import builtins
import contextlib
import gc
import itertools
import linecache
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable
from typing import Any

from agentgym.tools.sandbox.agent import hooks

NAME = "script.py"

_loaded = 0
"""The number of modules loaded before any run."""
_program: types.ModuleType | None = None
"""The agent's `__main__`, kept alive so that no run has to destroy it."""


def run(code: bytes, folder: str) -> int:
    """Run `code` as the main program and return its exit code; `folder` is the script's nominal folder."""
    path = os.path.join(folder, NAME)
    main = begin(path, folder)
    status = guarded(lambda: exec(compile_source(code, path), main.__dict__), path)
    return end(main, status, folder)


def prepare() -> None:
    """Once, in the agent: create the standard streams and record the loaded modules, so that no run has to."""
    global _loaded, _program
    _program = sys.modules["__main__"]
    saved = [os.dup(fd) for fd in range(3)]
    read, write = os.pipe()
    for fd, end in enumerate((read, write, write)):  # a stream checks on creation whether it is a pipe
        os.dup2(end, fd)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    streams = {"__stdin__": sys.stdin, "__stdout__": sys.stdout, "__stderr__": sys.stderr}
    sys.__dict__.update(streams)
    for fd, end in enumerate(saved):
        os.dup2(end, fd)
    for fd in (*saved, read, write):
        os.close(fd)
    _loaded = len(sys.modules)


def begin(path: str, folder: str) -> types.ModuleType:
    """Set this process up like a new interpreter: `__main__`, arguments, hooks, fresh random state."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __file__=path, __cached__=None)
    sys.modules["__main__"] = main
    sys.argv = [path]
    sys.path.insert(0, folder)
    sys.excepthook = sys.__excepthook__ = _show
    threading.excepthook = threading.__excepthook__ = _show_of_thread  # pyright: ignore[reportAttributeAccessIssue]
    hooks.run_deferred()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # pyright: ignore[reportAttributeAccessIssue]
    gc.enable()
    return main


def compile_source(code: bytes, path: str) -> Any:
    """Compile source, and register its lines for tracebacks."""
    remember(code, path)
    return compile(code, path, "exec", dont_inherit=True)


def remember(code: bytes, path: str) -> None:
    """Let tracebacks show the lines of source without a file."""
    text = code.decode("utf-8", "replace")
    linecache.cache[path] = (len(text), None, [f"{line}\n" for line in text.split("\n")], path)


def guarded(work: Callable[[], Any], path: str) -> int:
    """Call `work`, and print its exception's traceback from the frame of the file `path` on. Return the exit code."""
    try:
        work()
    except SystemExit as error:
        return _exit_code(error)
    except BaseException as error:
        _report(error, path)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def end(main: types.ModuleType, status: int, folder: str) -> int:
    """Shut down like the interpreter: join threads, call exit functions, close objects' files, flush streams."""
    if _thread._count() or threading._threading_atexits:  # pyright: ignore[reportAttributeAccessIssue]
        status = guarded(threading._shutdown, NAME) or status  # pyright: ignore[reportAttributeAccessIssue]
    with contextlib.suppress(BaseException):  # like the interpreter, continue after a failing exit function
        atexit._run_exitfuncs()
    flush()
    sys.last_traceback = sys.last_value = None
    for module in (main, *_modules_in(folder)):
        module.__dict__.clear()
    gc.collect()
    return status if flush() else 120


def _modules_in(folder: str) -> list[types.ModuleType]:
    """Return the workspace's modules; only the modules loaded last are checked."""
    modules = []
    for name in list(itertools.islice(reversed(sys.modules), max(0, len(sys.modules) - _loaded))):
        module = sys.modules[name]
        if isinstance(module, types.ModuleType) and str(module.__dict__.get("__file__")).startswith(folder + os.sep):
            modules.append(module)
    return modules


def flush() -> bool:
    """Flush the standard streams; false if that failed."""
    fine = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            fine = False
    return fine


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def _report(error: BaseException, path: str) -> None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    with contextlib.suppress(BaseException):  # whatever reporting raises, the run still needs its exit code
        try:
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        except BaseException:
            traceback.print_exc()


def _show(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    flush()
    with contextlib.suppress(RecursionError):
        traceback.print_exception(kind, error, trace)


def _show_of_thread(args: Any) -> None:
    if args.exc_type is not SystemExit:
        name = args.thread.name if args.thread is not None else threading.get_ident()
        sys.stderr.write(f"Exception in thread {name}:\n")
        traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)
