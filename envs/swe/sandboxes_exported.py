"""Stands in for `sandboxes` where an exported task is judged: each sandbox is a folder and a user of its own."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.tasks.swe.instance import Instance
from agentgym.tools.sandbox import Sandbox, SandboxLimits

_TEST_S = 120.0


class Sandboxes:
    """Opens sandboxes for hidden tests."""

    test_limits = SandboxLimits(wall_s=_TEST_S, cpu_s=_TEST_S)

    def open(self, instance: Instance, *, sealed: bool = False) -> Sandbox:
        """Open a fresh sandbox."""
        return Sandbox()  # pyright: ignore[reportCallIssue] (see `agentgym.envs.code.judging_exported`)


def put_tree(sandbox: Sandbox, tree: Mapping[str, bytes], *, there: Mapping[str, bytes] | None = None) -> None:
    """Write a tree into a fresh sandbox. It is empty, since exported tasks use no images."""
    assert not there
    sandbox.upload(tree)
