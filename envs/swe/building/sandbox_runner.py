"""`SandboxRunner`: runs a package's tests in a sandbox, for building tasks from untrusted packages."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from agentgym.envs.swe.building.runner import USUAL, Conditions, TestOutcome, outcome_of
from agentgym.envs.swe.sandboxes import spec_with_pytest
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tools.sandbox import Ended, Result, Sandbox, SandboxLimits, open_sandbox

LIMITS = SandboxLimits(wall_s=120.0, cpu_s=120.0, memory_mb=4096, total_memory_mb=4096, reply_bytes=256_000_000)

_PATIENCE = 4
"""Ratio of wall-clock time to processor time of a run, so that a busy machine does not change verdicts."""

_BEFORE = """\
import json, os, sys
request = json.loads(sys.stdin.buffer.read())
child = request.pop("child")
request["root"] = os.getcwd()
sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != request["root"]]
folder = request.pop("pytest")
sys.path.append(folder)
for name, module in list(sys.modules.items()):
    if hasattr(module, "__path__") and os.path.isdir(os.path.join(folder, name.partition(".")[0])):
        module.__path__ = [os.path.join(folder, *name.split("."))]
sys.argv = ["build_child", os.environ.pop("AGENTGYM_REPLY_FD"), json.dumps(request)]
sys.stdin = open(os.devnull)
exec(compile(child, "build_child", "exec", dont_inherit=True), globals())
"""


class SandboxRunner:
    """Runs tests in fresh sandboxes; a `TestRunner` (`agentgym.envs.swe.building.runner`).

    Args:
        backend: A name of `agentgym.tools.sandbox.backends()`, or `"auto"`.
        allow_weak: Accept a backend that does not confine everything.
        limits: Bounds on a run; each call sets its time.
    """

    def __init__(self, backend: str = "auto", *, allow_weak: bool = False, limits: SandboxLimits = LIMITS):
        self._backend, self._allow_weak, self._limits = backend, allow_weak, limits

    def __call__(
        self,
        tree: Mapping[str, bytes],
        tests: Sequence[str],
        *,
        python_path: Sequence[str] = (".",),
        timeout_s: float = 60.0,
        max_failures: int | None = None,
        trace: bool = False,
        conditions: Conditions = USUAL,
    ) -> TestOutcome:
        """Run tests; see `TestRunner`."""
        folder = pytest_folder()
        request = {
            "child": _child(), "pytest": str(folder), "tests": list(tests), "python_path": list(python_path),
            "trace": trace, "max_failures": max_failures or 0, "memory_mb": self._limits.memory_mb,
            **conditions.request(),
        }  # fmt: skip
        limits = self._limits.but(wall_s=_PATIENCE * timeout_s, cpu_s=timeout_s)
        with open_sandbox(
            spec_with_pytest(self._limits), backend=self._backend, allow_weak=self._allow_weak
        ) as sandbox:
            sandbox.upload(tree)
            started = time.monotonic()
            result = _executed(sandbox, json.dumps(request).encode(), limits, conditions.hash_seed)
            took = time.monotonic() - started
        lines = result.reply.decode("utf-8", "replace").splitlines()
        complete = result.ended not in (Ended.TIMEOUT, Ended.CPU)
        return outcome_of(lines, complete, f"{result.out}\n{result.err}"[-2000:], took)


def _executed(sandbox: Sandbox, request: bytes, limits: SandboxLimits, hash_seed: int) -> Result:
    if hash_seed == USUAL.hash_seed:
        return sandbox.exec(code=_BEFORE, stdin=request, limits=limits)
    # The prepared interpreter of a sandbox has a fixed hash seed; another seed needs a new interpreter.
    environment = {"PYTHONHASHSEED": str(hash_seed)}
    return sandbox.exec(["python3", "-P", "-s", "-S", "-c", _BEFORE], stdin=request, limits=limits, env=environment)


@cache
def _child() -> str:
    return Path(__file__).with_name("child.py").read_text(encoding="utf-8")
