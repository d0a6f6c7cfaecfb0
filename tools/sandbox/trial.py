"""Probes a tier: starts a sandbox as for real use, and attacks it from inside."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from agentgym.errors import AgentGymError
from agentgym.tools.sandbox.backend import PROBE_TIMEOUT_S, ProbeResult, SandboxBackend
from agentgym.tools.sandbox.connection import ConnectionBroken, greet
from agentgym.tools.sandbox.limits import SandboxLimits
from agentgym.tools.sandbox.sandbox import connect
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

if TYPE_CHECKING:
    from agentgym.tools.sandbox.result import Result

_TRIAL = """
import json, os, socket, sys

def refused(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False

secret, driver = json.loads(sys.stdin.read())
answer = {
    "reads the host's files": not refused(lambda: open(secret)),
    "opens sockets": not refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)),
    "signals the driver": not refused(lambda: os.kill(driver, 0)),
    "is root": os.getuid() == 0,
    "makes namespaces": not refused(lambda: os.unshare(0x10000000)) if hasattr(os, "unshare") else False,
}
os.write(int(os.environ["AGENTGYM_REPLY_FD"]), json.dumps(answer).encode())
"""


def probe(backend: SandboxBackend) -> ProbeResult:
    """Return whether a backend can start a sandbox here, and whether the sandbox withstands the attacks."""
    spec = SandboxSpec(limits=SandboxLimits(wall_s=PROBE_TIMEOUT_S))
    try:
        launched = backend.start(spec)
        try:
            greet(launched.endpoint, launched.settings, PROBE_TIMEOUT_S)
        except ConnectionBroken as error:
            launched.kill()
            return ProbeResult(backend.tier, False, str(error))
        with connect(launched, spec, backend.tier, "") as sandbox:
            weak = _weaknesses(sandbox.exec(code=_TRIAL, stdin=json.dumps([os.path.abspath(__file__), os.getpid()])))
    except (AgentGymError, OSError) as error:
        return ProbeResult(backend.tier, False, str(error))
    if weak:
        return ProbeResult(backend.tier, False, f"a sandbox started, but code in it {weak}")
    return ProbeResult(backend.tier, True, "a sandbox started and held", backend.protections)


def _weaknesses(result: Result) -> str:
    if not result.ok:
        return f"does not work: {result.message} {result.err.strip()[-500:]}"
    try:
        weaknesses = json.loads(result.reply)
    except ValueError:
        return "sends no answer"
    return " and ".join(what for what, present in weaknesses.items() if present)


__all__ = ["SandboxTier", "probe"]
