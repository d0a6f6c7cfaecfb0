"""A script in a copy of the tree that forks a process for each test run, so that libraries load only once.

Reads one JSON object per line, `{"arguments": [...], "timeout_s": ..., "output": PATH}`, and answers with the exit
status of pytest, or `null` if it did not finish. Imports none of our code, since that changes between runs.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

LIBRARIES = ("pytest", "numpy", "pydantic", "jsonschema", "docstring_parser", "gymnasium", "duckdb", "sqlglot", "yaml")
LIBRARIES += ("rich.console", "typer", "torch", "datasets", "transformers", "trl", "peft")
"""Libraries that the tests load; missing ones are skipped."""
MEMORY = 8 * 2**30
"""Bytes of data that a run may allocate: an endless loop may also fill lists."""


def run(arguments: list[str], timeout_s: float, output: str) -> int | None:
    """Return pytest's exit status, `None` if it ran out of time. Its output goes into the file `output`."""
    # A mutant must not survive because of earlier caches, nor affect later runs.
    with tempfile.TemporaryDirectory(prefix="mutant-cache-", ignore_cleanup_errors=True) as cache:
        return _run_with(cache, arguments, timeout_s, output)


def _run_with(cache: str, arguments: list[str], timeout_s: float, output: str) -> int | None:
    child = os.fork()
    if child == 0:
        os.environ["AGENTGYM_CACHE"] = cache
        _be_pytest(arguments, output)
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _kill(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    _kill(child)
    os.waitpid(child, 0)
    return None


def _be_pytest(arguments: list[str], output: str) -> None:
    status = 1
    try:
        os.setsid()
        out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (out, 2)):
            os.dup2(descriptor, target)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        status = int(importlib.import_module("pytest").main(arguments))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def main() -> None:
    for name in LIBRARIES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for line in sys.stdin:
        job: dict[str, Any] = json.loads(line)
        print(json.dumps(run(**job)), flush=True)


if __name__ == "__main__":
    main()
