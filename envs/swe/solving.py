"""The reference policy: the gold patch, applied with the environment's own tools."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym.engine.steps import Solution
from agentgym.envs.swe.filtering import is_test
from agentgym.envs.swe.repository import Repository
from agentgym.messages import ToolCall
from agentgym.tools.patches import FilePatch, parse_patch, render_patch

_AROUND = 12
_MAX_STEPS = 20
"""Limit on the steps of viewing and editing; a larger patch is applied at once."""


def solve(repository: Repository, *, full: bool) -> Solution:
    """Yield the calls that fix a repository.

    Args:
        repository: The repository to fix.
        full: View each place, edit it and run the tests, instead of applying the patch and submitting.
    """
    patch = repository.instance.gold_patch
    if not full:
        yield ToolCall("apply_patch", {"patch": patch})
        yield ToolCall("submit")
        return
    yield ToolCall("list_files")
    patches = parse_patch(patch)
    if 2 * sum(len(file_patch.hunks) for file_patch in patches) > _MAX_STEPS:
        yield ToolCall("apply_patch", {"patch": patch})
    else:
        for file_patch in patches:
            yield from _changes(repository, file_patch)
    tests = [path for path in repository.hidden.files if is_test(path) and path in repository.files]
    yield ToolCall("run_tests", {"paths": tests} if tests else {})
    yield ToolCall("submit")


def _changes(repository: Repository, patch: FilePatch) -> Iterator[ToolCall]:
    """Yield views and edits of one file; changes without a unique text to replace are applied as a patch."""
    text = repository.files.get(patch.path, b"").decode("utf-8", "replace")
    edits = list(_edits(patch, text))
    if patch.path != patch.original or len(edits) < len(patch.hunks) or not edits or "\r" in text:
        yield ToolCall("apply_patch", {"patch": render_patch([patch])})
        return
    for hunk, edit in zip(patch.hunks, edits, strict=True):
        start, end = max(1, hunk.new_start - _AROUND), hunk.new_start + len(hunk.lines) + _AROUND
        yield ToolCall("view", {"path": patch.path, "start": start, "end": end})
        yield edit


def _edits(patch: FilePatch, text: str) -> Iterator[ToolCall]:
    """Yield the hunks as exact replacements, as long as their old lines occur in the file once."""
    for hunk in patch.hunks:
        old, new = "".join(hunk.old_lines), "".join(hunk.new_lines)
        if not old or text.count(old) != 1:
            return
        text = text.replace(old, new)
        yield ToolCall("edit", {"path": patch.path, "old": old, "new": new})
