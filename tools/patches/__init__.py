"""Creates, parses, applies, reverses and compares unified diffs without git, on trees given as path -> bytes.

Nothing here touches a file system or starts a process, so it is safe for text and trees written by an agent.
Symbolic links and submodules are refused, file modes are ignored.
"""

from agentgym.tools.patches.applying import apply_patch
from agentgym.tools.patches.comparing import Localisation, diff_trees, localisation, similarity, touched
from agentgym.tools.patches.model import BinaryChange, FilePatch, Hunk, HunkLine, PatchError
from agentgym.tools.patches.parsing import parse_patch
from agentgym.tools.patches.rendering import render_patch, reverse_patch

__all__ = [
    "BinaryChange",
    "FilePatch",
    "Hunk",
    "HunkLine",
    "Localisation",
    "PatchError",
    "apply_patch",
    "diff_trees",
    "localisation",
    "parse_patch",
    "render_patch",
    "reverse_patch",
    "similarity",
    "touched",
]
