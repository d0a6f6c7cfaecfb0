"""Renders patches in git's format, and reverses them."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.tools.patches.model import BinaryChange, FilePatch, Hunk, encode_literal
from agentgym.tools.patches.parsing import parse_patch
from agentgym.tools.patches.paths import NOWHERE, quote

_MODE = "100644"


def reverse_patch(text: str) -> str:
    """Return the patch that undoes `text`. Raises `PatchError` if it is malformed, or copies a file."""
    return render_patch(patch.reversed() for patch in reversed(parse_patch(text)))


def render_patch(patches: Iterable[FilePatch]) -> str:
    """Return file patches as text that `git apply` reads."""
    return "".join(_file(patch) for patch in patches)


def render_hunk(hunk: Hunk, section: bool = True) -> str:
    """Return one hunk as text; `section` controls the text after the second `@@`."""
    old, new = _range(hunk.old_start, len(hunk.old_lines)), _range(hunk.new_start, len(hunk.new_lines))
    tail = f" {hunk.section}" if section and hunk.section else ""
    lines = (
        line.op + line.text if line.text.endswith("\n") else f"{line.op}{line.text}\n\\ No newline at end of file\n"
        for line in hunk.lines
    )
    return f"@@ -{old} +{new} @@{tail}\n{''.join(lines)}"


def _range(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"


def _file(patch: FilePatch) -> str:
    old, new = quote(f"a/{patch.original}"), quote(f"b/{patch.path}")
    text = f"diff --git {old} {new}\n{_modes(patch)}{_moves(patch)}{_index(patch)}"
    if patch.binary is not None:
        sides = (NOWHERE if patch.old_path is None else old, NOWHERE if patch.new_path is None else new)
        return text + _binary(patch.binary, *sides)
    if not patch.hunks:
        return text
    minus = NOWHERE if patch.old_path is None else _with_tab(old)
    plus = NOWHERE if patch.new_path is None else _with_tab(new)
    return f"{text}--- {minus}\n+++ {plus}\n{''.join(render_hunk(hunk) for hunk in patch.hunks)}"


def _with_tab(path: str) -> str:
    """Append a tab to a path with spaces, as git does, so that it is not parsed as a path and a time."""
    return f"{path}\t" if " " in path and not path.startswith('"') else path


def _modes(patch: FilePatch) -> str:
    if patch.old_path is None:
        return f"new file mode {patch.new_mode or _MODE}\n"
    if patch.new_path is None:
        return f"deleted file mode {patch.old_mode or _MODE}\n"
    if patch.old_mode and patch.new_mode and patch.old_mode != patch.new_mode:
        return f"old mode {patch.old_mode}\nnew mode {patch.new_mode}\n"
    return ""


def _moves(patch: FilePatch) -> str:
    if not (patch.is_rename or patch.copied) or patch.old_path is None or patch.new_path is None:
        return ""
    word = "copy" if patch.copied else "rename"
    return f"{word} from {quote(patch.old_path)}\n{word} to {quote(patch.new_path)}\n"


def _index(patch: FilePatch) -> str:
    if patch.old_hash is None or patch.new_hash is None:
        return ""
    same = patch.old_path and patch.new_path and patch.old_mode == patch.new_mode
    return f"index {patch.old_hash}..{patch.new_hash}{f' {patch.new_mode}' if same and patch.new_mode else ''}\n"


def _binary(change: BinaryChange, old: str, new: str) -> str:
    if change.new is None or change.old is None:
        return f"Binary files {old} and {new} differ\n"
    return f"GIT binary patch\n{encode_literal(change.new)}{encode_literal(change.old)}"
