"""Which sandbox an instance is worked on and graded in, and putting a tree into it."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from agentgym.tasks.swe.instance import Instance
from agentgym.tasks.swe.local import spec_of
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tasks.swe.sandbox_runner import spec_with_pytest
from agentgym.tools.sandbox import Limits, Sandbox, SandboxSpec, open_sandbox
from agentgym.tools.sandbox.containers.backend import DockerBackend
from agentgym.tools.sandbox.containers.hardening import Hardening

MAX_TREE_BYTES = 256_000_000
"""Greatest size of a workspace that is read back."""


@dataclass(frozen=True)
class Sandboxes:
    """Opens sandboxes.

    Args:
        backend: A name of `agentgym.tools.sandbox.backends()`, or `"auto"`.
        allow_weak: Accept a backend that does not hold in everything.
        limits: Bounds on a run of the agent's.
        test_limits: Bounds on a run of hidden tests.
    """

    backend: str
    allow_weak: bool
    limits: Limits
    test_limits: Limits

    def open(self, instance: Instance) -> Sandbox:
        """Open a fresh sandbox. Those for work and for grading are alike, so that they are made ahead together."""
        if instance.image is not None:
            spec = SandboxSpec(limits=self.limits, image=instance.image, workdir=instance.workdir)
            return open_sandbox(spec, backend=_image_backend(), allow_weak=self.allow_weak)
        spec = spec_with_pytest(self.limits) if instance.python is None else spec_of(instance, self.limits)
        return open_sandbox(spec, backend=self.backend, allow_weak=self.allow_weak)


@cache
def _image_backend() -> DockerBackend:
    """Return what starts images that hold a repository: root's, by custom, and changed in place.

    Root of such a container has no capabilities and no network.
    """
    backend = DockerBackend(hardening=Hardening(user="0:0", writable_root=True))
    atexit.register(backend.close)
    return backend


def environment(sandbox: Sandbox, instance: Instance) -> dict[str, str]:
    """Return the variables with which an agent's programs find the repository and pytest.

    Images have their own, and so have Python environments (`spec_of`).
    """
    if instance.image is not None or instance.python is not None:
        return {}
    roots = [str(PurePosixPath(sandbox.workdir, root)) for root in python_path(instance)]
    return {
        "PYTHONPATH": ":".join([*roots, str(pytest_folder())]),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def python_path(instance: Instance) -> tuple[str, ...]:
    """Return what an instance's modules are imported from, relative to its root."""
    return instance.python_path or (".",)


def read_tree(sandbox: Sandbox) -> dict[str, bytes]:
    """Return the regular files of a workspace, as data."""
    return dict(sandbox.download(".", max_bytes=MAX_TREE_BYTES))


def put_tree(sandbox: Sandbox, tree: Mapping[str, bytes], *, there: Mapping[str, bytes] | None = None) -> None:
    """Make a workspace hold a tree, given what it holds of files already."""
    there = there or {}
    sandbox.upload({path: data for path, data in tree.items() if there.get(path) != data})
    for path in there.keys() - tree.keys():
        sandbox.remove(path)
