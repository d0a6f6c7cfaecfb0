"""Sandboxes: isolated places to run model-written code. Start with `open_sandbox()`.

The isolation available depends on the machine: `backends()` reports what works here, and every sandbox has a `tier`.
"""

from agentgym.tools.sandbox.answers import DirectoryEntry, FileProblem, TextProblem
from agentgym.tools.sandbox.backend import (
    ProbeResult,
    Protection,
    ProtectionLevel,
    SandboxLost,
    SandboxStartFailed,
    Threat,
)
from agentgym.tools.sandbox.folders import WorkspaceSnapshot
from agentgym.tools.sandbox.pool import SandboxPool, open_sandbox, open_sandbox_async
from agentgym.tools.sandbox.registry import backends
from agentgym.tools.sandbox.result import Ended, ResourceUsage, Result
from agentgym.tools.sandbox.sandbox import AsyncSandbox, AsyncSandboxSession, Sandbox, SandboxSession
from agentgym.tools.sandbox.spec import SandboxLimits, SandboxSpec, SandboxTier

__all__ = [
    "AsyncSandbox",
    "AsyncSandboxSession",
    "DirectoryEntry",
    "Ended",
    "FileProblem",
    "ProbeResult",
    "Protection",
    "ProtectionLevel",
    "ResourceUsage",
    "Result",
    "Sandbox",
    "SandboxLimits",
    "SandboxLost",
    "SandboxPool",
    "SandboxSession",
    "SandboxSpec",
    "SandboxStartFailed",
    "SandboxTier",
    "TextProblem",
    "Threat",
    "WorkspaceSnapshot",
    "backends",
    "open_sandbox",
    "open_sandbox_async",
]
