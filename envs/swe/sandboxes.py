"""Opens the sandboxes that instances are worked on and graded in, and fills them with files."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

from agentgym.tasks.swe.instance import Instance
from agentgym.tasks.swe.local import spec_of
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tools.sandbox import Sandbox, SandboxLimits, SandboxSpec, open_sandbox
from agentgym.tools.sandbox.containers.backend import DockerBackend
from agentgym.tools.sandbox.containers.hardening import Hardening

MAX_TREE_BYTES = 256_000_000
"""Largest workspace to read back."""
PRELOADED = (
    "pytest",
    *(f"_pytest.{name}" for name in ("capture", "doctest", "fixtures", "junitxml", "logging", "python", "recwarn")),
    *(f"_pytest.{name}" for name in ("skipping", "stepwise", "terminal", "tmpdir", "unittest", "warnings")),
    *(f"_pytest.{name}" for name in ("faulthandler", "helpconfig", "pastebin", "setuponly", "setupplan")),
    *("_pytest.threadexception", "_pytest.unraisableexception", "pdb"),
)
"""Modules that every run of tests would import anyway."""
_WORKDIRS = ("/work", "/repository")


@dataclass(frozen=True)
class Sandboxes:
    """Opens sandboxes.

    Args:
        backend: A name of `agentgym.tools.sandbox.backends()`, or `"auto"`.
        allow_weak: Accept a backend that does not confine everything.
        limits: Bounds on a run by the agent.
        test_limits: Bounds on a run of hidden tests.
    """

    backend: str
    allow_weak: bool
    limits: SandboxLimits
    test_limits: SandboxLimits

    def open(self, instance: Instance, *, sealed: bool = False) -> Sandbox:
        """Open a fresh sandbox.

        Args:
            instance: The instance to work on or to grade.
            sealed: Hide the host's files (`SandboxSpec.sealed`). Instances with an image or a Python environment of
                their own need these files, so it has no effect on them.
        """
        if instance.image is not None:
            spec = SandboxSpec(limits=self.limits, image=instance.image, workdir=instance.workdir)
            return open_sandbox(spec, backend=_image_backend(), allow_weak=self.allow_weak)
        if instance.python is not None:
            spec = spec_of(instance, self.limits)
        else:
            spec = replace(spec_with_pytest(self.limits), sealed=sealed)
        return open_sandbox(spec, backend=self.backend, allow_weak=self.allow_weak)


def spec_with_pytest(limits: SandboxLimits) -> SandboxSpec:
    """Return the spec of a sandbox with pytest, and with no other package of the host."""
    folder = pytest_folder()
    # The workspace would hide folders below it, and code from there would pass for the repository's.
    visible = [folder, Path(sys.prefix), Path(sys.base_prefix)]
    workdir = next(path for path in _WORKDIRS if not any(place.is_relative_to(path) for place in visible))
    return SandboxSpec(limits=limits, workdir=workdir, readable=(folder,), preload=PRELOADED)


@cache
def _image_backend() -> DockerBackend:
    """Return the backend for images that hold a repository: by convention owned by root, and changed in place.

    Root in such a container has no capabilities and no network.
    """
    backend = DockerBackend(hardening=Hardening(user="0:0", writable_root=True))
    atexit.register(backend.close)
    return backend


def environment(sandbox: Sandbox, instance: Instance) -> dict[str, str]:
    """Return the environment variables that let an agent's programs find the repository and pytest.

    Images and Python environments (`spec_of`) set their own.
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
    """Return the folders that an instance's modules are imported from, relative to its root."""
    return instance.python_path or (".",)


def read_tree(sandbox: Sandbox) -> dict[str, bytes]:
    """Return the regular files of a workspace, as data."""
    return dict(sandbox.download(".", max_bytes=MAX_TREE_BYTES))


def put_tree(sandbox: Sandbox, tree: Mapping[str, bytes], *, there: Mapping[str, bytes] | None = None) -> None:
    """Write a tree into a workspace; `there` are the files that it holds already."""
    there = there or {}
    sandbox.upload({path: data for path, data in tree.items() if there.get(path) != data})
    for path in there.keys() - tree.keys():
        sandbox.remove(path)
