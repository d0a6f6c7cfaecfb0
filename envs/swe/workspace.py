"""The agent's workspace: files viewed and changed as text, with instructive errors.

Everything happens in the agent's own sandbox; nothing from it is ever run, imported or interpreted outside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from agentgym.base.errors import ToolError
from agentgym.envs.swe.sandboxes import environment, python_path
from agentgym.tasks.swe.instance import Instance
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tools.patches import PatchError, apply_patch, parse_patch
from agentgym.tools.sandbox import Result, Sandbox, SandboxLimits
from agentgym.tools.text_files import MAX_LINE_CHARS, count_of, replaced, viewed

MAX_FILE_BYTES = 4_000_000
MAX_ENTRIES = 300
MAX_MATCHES = 50
_HIDDEN = {".git", "__pycache__", ".pytest_cache"}

_SEARCH = """
import json, os, re, sys
request = json.load(sys.stdin)
pattern, shown = re.compile(request["pattern"]), 0
def files(top):
    if os.path.isfile(top):
        yield top
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in request["hidden"])
        for name in sorted(names):
            yield os.path.join(folder, name)
for path in files(request["path"]):
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if pattern.search(line.rstrip("\\n")):
                    if shown == request["most"]:
                        print("(more matches are not shown; use a more specific pattern, or search one folder)")
                        sys.exit()
                    shown += 1
                    print("%s:%d: %s" % (os.path.relpath(path), number, line.strip()[:request["width"]]))
    except (OSError, UnicodeDecodeError):
        continue
"""


class RepositoryWorkspace:
    """A sandbox with a repository in it, as an agent's tools see it."""

    def __init__(self, sandbox: Sandbox, instance: Instance, limits: SandboxLimits):
        self.sandbox = sandbox
        self._instance, self._limits = instance, limits
        self._environment = environment(sandbox, instance)
        self.changed = False
        """Whether the agent may have changed anything."""

    def list_files(self, path: str) -> str:
        """Return the files and folders below a folder, two levels deep."""
        entries = self.sandbox.list(_relative(path), depth=2, max_entries=4 * MAX_ENTRIES)
        lines = sorted(
            f"{entry.path}/" if entry.kind == "directory" else entry.path
            for entry in entries
            if not _HIDDEN.intersection(entry.path.split("/"))
        )
        more = f"\n({len(lines) - MAX_ENTRIES} more are not shown)" if len(lines) > MAX_ENTRIES else ""
        return "\n".join(lines[:MAX_ENTRIES]) + more if lines else "The folder is empty."

    def search(self, pattern: str, path: str) -> str:
        """Return the lines that match a regular expression, which runs in the sandbox because it may take long."""
        request = {
            "pattern": pattern,
            "path": _relative(path),
            "most": MAX_MATCHES,
            "width": MAX_LINE_CHARS,
            "hidden": sorted(_HIDDEN),
        }
        result = self.sandbox.exec(code=_SEARCH, stdin=json.dumps(request).encode(), limits=self._limits)
        if not result.ok:
            why = result.err.strip().rpartition("\n")[2] or result.ended.value
            raise ToolError(f"The search failed: {why}")
        return result.out.strip() or "No matches."

    def view(self, path: str, start: int, end: int | None) -> str:
        """Return lines of a file with their numbers."""
        return viewed(path, self.text(path), start, end)

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text that occurs exactly once in a file."""
        text, message = replaced(path, self.text(path), old, new)
        self._write(path, text)
        return message

    def insert(self, path: str, line: int, text: str) -> str:
        """Insert lines after a line; 0 is the top."""
        before = self.text(path)
        lines = before.splitlines(keepends=True)
        if not 0 <= line <= len(lines):
            raise ToolError(f"{path} has {count_of(len(lines), 'line')}; `line` must be from 0 to {len(lines)}.")
        if line and not lines[line - 1].endswith("\n"):
            lines[line - 1] += "\n"
        lines.insert(line, text if text.endswith("\n") else f"{text}\n")
        self._write(path, "".join(lines))
        return f"Inserted {count_of(len(text.splitlines()), 'line')} into {path} after line {line}."

    def create(self, path: str, content: str) -> str:
        """Write a file that does not exist yet."""
        relative = _relative(path)
        if self._read(relative) is not None:
            raise ToolError(f"{path} already exists; change it with edit, insert or apply_patch.")
        self._write(relative, content)
        return f"Created {path}, {count_of(len(content.splitlines()), 'line')}."

    def apply_patch(self, patch: str) -> str:
        """Apply a unified diff completely, or not at all."""
        try:
            paths = sorted(
                {path for file_patch in parse_patch(patch) for path in (file_patch.path, file_patch.original)}
            )
            before = {path: data for path in paths if (data := self._read(path)) is not None}
            after = apply_patch(before, patch)
        except PatchError as error:
            raise ToolError(f"The patch does not apply; nothing was changed: {error}") from error
        if not paths:
            raise ToolError("The patch changes nothing. Give a unified diff with ---, +++ and @@ lines.")
        self.changed = True
        for path in before.keys() - after.keys():
            self.sandbox.remove(path)
        for path, data in after.items():
            if before.get(path) != data:
                self.sandbox.write(path, data)
        return f"Applied to {', '.join(paths)}."

    def run(self, argv: Sequence[str]) -> Result:
        """Run a program in the workspace."""
        self.changed = True
        return self.sandbox.exec(argv, env=self._environment, limits=self._limits)

    def run_pytest(self, arguments: Sequence[str]) -> Result:
        """Run pytest in the workspace: in a fork with pytest loaded, or with the Python of the image or environment."""
        if self._instance.image is not None or self._instance.python is not None:
            return self.run(["python", "-m", "pytest", *arguments])
        self.changed = True
        request = {
            "pytest": str(pytest_folder()),
            "python_path": python_path(self._instance),
            "arguments": list(arguments),
        }
        stdin = json.dumps(request).encode()
        return self.sandbox.exec(code=_runner(), stdin=stdin, env=self._environment, limits=self._limits)

    def text(self, path: str) -> str:
        """Return the text of a file."""
        data = self.sandbox.read(_relative(path), max_bytes=MAX_FILE_BYTES)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolError(f"{path} is not a text file.") from None

    def _read(self, path: str) -> bytes | None:
        try:
            return self.sandbox.read(path, max_bytes=MAX_FILE_BYTES)
        except ToolError as problem:
            if getattr(problem, "kind", "") == "not_found":
                return None
            raise

    def _write(self, path: str, text: str) -> None:
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            raise ToolError("The text contains lone surrogates, which no file can hold.") from None
        self.changed = True
        self.sandbox.write(_relative(path), data)


@cache
def _runner() -> str:
    return Path(__file__).with_name("inside_work.py").read_text(encoding="utf-8")


def _relative(path: str) -> str:
    """Return a path if it is valid; an empty one means the root."""
    if "\0" in path or any("\ud800" <= char <= "\udfff" for char in path):
        raise ToolError("A path must not contain NUL characters or lone surrogates.")
    return path or "."
