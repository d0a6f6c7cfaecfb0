"""Sandboxes: places where model-written code runs without harm. `open_sandbox()` is the way in.

Which walls there are depends on the machine; `backends()` says what works here, and every sandbox carries its tier.
"""

from agentgym.tools.sandbox.answers import Entry, FileProblem, TextProblem
from agentgym.tools.sandbox.backend import Probe, SandboxLost, SandboxStartFailed
from agentgym.tools.sandbox.limits import Limits
from agentgym.tools.sandbox.pool import SandboxPool, open_sandbox, open_sandbox_async
from agentgym.tools.sandbox.protection import Held, Protection, Threat
from agentgym.tools.sandbox.registry import backends
from agentgym.tools.sandbox.result import Ended, Result, Usage
from agentgym.tools.sandbox.sandbox import AsyncSandbox, AsyncSession, Sandbox, Session
from agentgym.tools.sandbox.spec import SandboxSpec, Tier
from agentgym.tools.sandbox.trees import Snapshot

__all__ = [
    "AsyncSandbox",
    "AsyncSession",
    "Ended",
    "Entry",
    "FileProblem",
    "Held",
    "Limits",
    "Probe",
    "Protection",
    "Result",
    "Sandbox",
    "SandboxLost",
    "SandboxPool",
    "SandboxSpec",
    "SandboxStartFailed",
    "Session",
    "Snapshot",
    "TextProblem",
    "Threat",
    "Tier",
    "Usage",
    "backends",
    "open_sandbox",
    "open_sandbox_async",
]
