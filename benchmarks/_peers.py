"""The side of other projects in a benchmark: modules that another Python runs, and that answer in JSON.

Does not import agentgym, so that these modules can use it too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


@contextmanager
def started(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a process during the block, with pipes for its input and output.

    Args:
        command: The command, run in the root of the repository.
        environment: Environment variables on top of ours.
    """
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | (environment or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def peer(
    python: str, module: str, environment: Mapping[str, str] | None = None
) -> Iterator[Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """Start a module of this folder with another Python; yield a function that sends it a request.

    The benchmark ends if the module does.

    Args:
        python: The Python that runs it.
        module: Its name.
        environment: Environment variables on top of ours.
    """
    with started([python, "-m", f"benchmarks.{module}"], environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def ask(request: Mapping[str, Any]) -> dict[str, Any]:
            print(json.dumps(request), file=requests, flush=True)
            if not (line := answers.readline()):
                sys.exit(f"{module} failed; does {python!r} have its packages?")
            return json.loads(line)

        yield ask


def answer(play: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Answer requests, each a line of standard input, until the input ends: the other side of `peer`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # packages print to standard output
    for line in sys.stdin:
        print(json.dumps(play(json.loads(line))), file=answers, flush=True)


def versions_in(python: str, *packages: str) -> dict[str, str]:
    """Return the versions of packages in another Python, without missing ones."""
    program = (
        "import importlib.metadata as metadata, json, sys\n"
        "packages = {package.name: package.version for package in metadata.distributions()}\n"
        "print(json.dumps({name: packages[name] for name in sys.argv[1:] if name in packages}))"
    )
    run = subprocess.run([python, "-c", program, *packages], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)
