"""The trees of an instance: what the agent receives, the gold state, and the tests that are restored for grading.

Trees are held in memory as path -> bytes. Nothing here runs anything.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from agentgym.base.errors import BrokenTask
from agentgym.envs.swe.filtering import is_test
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import HiddenTests
from agentgym.tasks.swe.instance import PREFIX_IDS, Instance
from agentgym.tools.patches import PatchError, apply_patch, parse_patch


@dataclass(frozen=True)
class Repository:
    """An instance with its files."""

    instance: Instance
    files: Mapping[str, bytes]
    """The files that the agent receives."""
    in_image: Mapping[str, bytes] | None = None
    """The initial files of the workspace, if it comes from an image."""

    @cached_property
    def key(self) -> str:
        """Content hash (hex) of everything that grading depends on, except the agent's work."""
        digest = hashlib.sha256(json.dumps(self.instance.to_dict(), sort_keys=True).encode())
        for path, data in sorted(self.files.items()):
            digest.update(f"\0{path}\0{len(data)}\0".encode() + data)
        return digest.hexdigest()

    @cached_property
    def gold(self) -> dict[str, bytes]:
        """The files with the gold patch. Raises `BrokenTask` if it does not apply."""
        return self._patched(self.files, self.instance.gold_patch, "gold patch")

    @cached_property
    def gold_paths(self) -> frozenset[str]:
        """The files that the gold patch changes."""
        return _paths(self.instance.gold_patch) if self.instance.gold_patch.strip() else frozenset()

    @cached_property
    def restored(self) -> dict[str, bytes]:
        """The test files in their state for grading, which undoes any change to them."""
        files = {path: data for path, data in self.files.items() if is_test(path) and path not in self.gold_paths}
        if self.instance.test_patch:
            patched = self._patched(self.files, self.instance.test_patch, "test patch")
            files |= {path: patched[path] for path in _paths(self.instance.test_patch) if path in patched}
        return files | {path: text.encode() for path, text in self.instance.test_files.items()}

    @cached_property
    def hidden(self) -> HiddenTests:
        """The tests that decide, and the modules that are used only in the grader's own copy."""
        instance = self.instance
        tests = (*instance.fail_to_pass, *instance.pass_to_pass)
        prefixes = frozenset(instance.meta.get(PREFIX_IDS, ()))
        modules = {path: text for path, data in self.restored.items() if (text := _module_text(path, data)) is not None}
        return HiddenTests(
            modules=modules,
            tests=tuple(test for test in tests if test not in prefixes),
            prefixes=tuple(test for test in tests if test in prefixes),
            python_path=instance.python_path or (".",),
            options=_options(instance.test_command),
        )

    def to_grade(self, tree: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return a tree of sources with the tests restored."""
        return {**tree, **self.restored}

    def _patched(self, tree: Mapping[str, bytes], patch: str, name: str) -> dict[str, bytes]:
        try:
            return apply_patch(tree, patch) if patch.strip() else dict(tree)
        except PatchError as error:
            raise BrokenTask(f"the {name} of {self.instance.id!r} does not apply: {error}") from error


def files_of(tests: Collection[str]) -> tuple[str, ...]:
    """Return the test files that ids name."""
    return tuple(sorted({NodeId.of(test).path for test in tests}))


def _paths(patch: str) -> frozenset[str]:
    return frozenset(path for file_patch in parse_patch(patch) for path in (file_patch.path, file_patch.original))


def _module_text(path: str, data: bytes) -> str | None:
    if not path.endswith(".py"):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _options(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the settings among the arguments of a test command that runs pytest (`-o name=value`, `-W ...`)."""
    words = list(command) if len(command) > 1 else shlex.split(" ".join(command))
    pairs = pairwise(words)
    return tuple(word for flag, value in pairs if flag in ("-o", "--override-ini") for word in (flag, value))
