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
from agentgym.tools import text_codec
from agentgym.tools.patches import PatchError, apply_patch, parse_patch
from agentgym.tools.sandbox import DirectoryEntry, Result, Sandbox, SandboxLimits
from agentgym.tools.text_codec import decode_file, split_lines
from agentgym.tools.text_files import MAX_LINE_CHARS, count_of, decoded, encoded, inserted, replaced, viewed

MAX_FILE_BYTES = 4_000_000
MAX_ENTRIES = 300
MAX_MATCHES = 50
_HIDDEN = {".git", "__pycache__", ".pytest_cache"}
_START_HISTORY = """
command -v git >/dev/null && ! [ -e .git ] || exit 0
git init -q -b main && git add -A -f && git commit -q -m 'Initial commit'
git config user.name agent && git config user.email agent@localhost
"""
_IDENTITY = {
    f"GIT_{role}_{name}": value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in {"NAME": "agent", "EMAIL": "agent@localhost", "DATE": "2024-01-01T00:00:00Z"}.items()
}
"""Author and date of the commit, the same in every episode."""

_SEARCH = """
import json, os, sys
request = json.load(sys.stdin)
pattern, shown, skipped = re.compile(request["pattern"]), 0, {}
def files(top):
    if not os.path.isdir(top):
        yield top
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in request["hidden"])
        for name in sorted(names):
            yield os.path.join(folder, name)
def read(path):
    if not os.path.isfile(path):
        return "are not regular files"
    if os.path.getsize(path) > request["largest"]:
        return "are larger than %d bytes" % request["largest"]
    with open(path, "rb") as file:
        return decode_file(file.read()) or "are binary"
if not os.path.lexists(request["path"]):
    sys.exit("there is no %s" % request["path"])
for path in files(request["path"]):
    try:
        content = read(path)
    except OSError:
        content = "cannot be read"
    if isinstance(content, str):
        skipped.setdefault(content, []).append(os.path.relpath(path))
        continue
    for number, line in enumerate(split_lines(content[0]), start=1):
        if shown <= request["most"] and pattern.search(without_end(line)):
            shown += 1
            if shown > request["most"]:
                print("(more matches are not shown; use a more specific pattern, or search one folder)")
            else:
                print("%s:%d: %s" % (os.path.relpath(path), number, line.strip()[:request["width"]]))
for reason, paths in skipped.items():
    more = " and %d more" % (len(paths) - 3) if len(paths) > 3 else ""
    print("(not searched, as they %s: %s%s)" % (reason, ", ".join(paths[:3]), more))
"""
"""Runs after the text of `text_codec`."""


class RepositoryWorkspace:
    """A sandbox with a repository in it, as an agent's tools see it."""

    def __init__(self, sandbox: Sandbox, instance: Instance, limits: SandboxLimits):
        self.sandbox = sandbox
        self._instance, self._limits = instance, limits
        self._environment = environment(sandbox, instance)
        self.changed = False
        """Whether the agent may have changed anything."""

    def start_history(self) -> None:
        """Commit the files to a new git repository, unless the sandbox has no git or the files have a history."""
        self.sandbox.exec(["bash", "-c", _START_HISTORY], env=_IDENTITY, limits=self._limits)

    def list_files(self, path: str) -> str:
        """Return the files and folders below a folder, two levels deep."""
        entries = {entry.path: entry.kind for entry in self._entries(path)}
        for folder in [entry for entry, kind in entries.items() if kind == "dir"]:
            below = [kind for entry, kind in entries.items() if entry.startswith(f"{folder}/")]
            if below and all(kind == "dir" for kind in below):  # such as src: it takes no level
                entries |= {entry.path: entry.kind for entry in self._entries(folder)}
        lines = sorted(f"{path}/" if kind == "dir" else path for path, kind in entries.items())
        more = f"\n({len(lines) - MAX_ENTRIES} more are not shown)" if len(lines) > MAX_ENTRIES else ""
        return "\n".join(lines[:MAX_ENTRIES]) + more if lines else "The folder is empty."

    def _entries(self, path: str) -> list[DirectoryEntry]:
        entries = self.sandbox.list(_relative(path), depth=2, max_entries=4 * MAX_ENTRIES)
        return [entry for entry in entries if not _HIDDEN.intersection(entry.path.split("/"))]

    def search(self, pattern: str, path: str) -> str:
        """Return the lines that match a regular expression, which runs in the sandbox because it may take long."""
        request = {
            "pattern": pattern,
            "path": _relative(path),
            "most": MAX_MATCHES,
            "width": MAX_LINE_CHARS,
            "hidden": sorted(_HIDDEN),
            "largest": MAX_FILE_BYTES,
        }
        result = self.sandbox.exec(code=_search_program(), stdin=json.dumps(request).encode(), limits=self._limits)
        if not result.ok:
            why = result.err.strip().rpartition("\n")[2] or result.ended.value
            raise ToolError(f"The search failed: {why}")
        found_nothing = not result.out or result.out.startswith("(not searched")
        return "\n".join(["No matches."] * found_nothing + [result.out.strip()] * bool(result.out))

    def view(self, path: str, start: int, end: int | None) -> str:
        """Return lines of a file with their numbers."""
        return viewed(path, self._text(path)[0], start, end)

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text that occurs exactly once in a file."""
        text, codec = self._text(path)
        text, message = replaced(path, text, old, new)
        self._write(path, text, codec)
        return message

    def insert(self, path: str, line: int, text: str) -> str:
        """Insert lines after a line; 0 is the top."""
        before, codec = self._text(path)
        after, message = inserted(path, before, line, text)
        self._write(path, after, codec)
        return message

    def create(self, path: str, content: str) -> str:
        """Write a file that does not exist yet."""
        relative = _relative(path)
        if self._read(relative) is not None:
            raise ToolError(f"{path} already exists; change it with edit, insert or apply_patch.")
        self._write(relative, content)
        return f"Created {path}, {count_of(len(split_lines(content)), 'line')}."

    def apply_patch(self, patch: str) -> str:
        """Apply a unified diff completely, or not at all."""
        try:
            originals = {file_patch.path: file_patch.original for file_patch in parse_patch(patch)}
            paths = sorted({*originals, *originals.values()})
            before = {path: data for path in paths if (data := self._read(path)) is not None}
            # The text of a patch is in UTF-8, whatever codec the file has.
            contents = {path: decode_file(data) for path, data in before.items()}
            texts = {path: content[0].encode() if content else before[path] for path, content in contents.items()}
            after = apply_patch(texts, patch)
            for path, data in after.items():
                content = contents.get(originals.get(path, path))
                after[path] = (
                    encoded(path, data.decode("utf-8", "surrogateescape"), content[1])
                    if content and b"\0" not in data
                    else data
                )
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

    def _text(self, path: str) -> tuple[str, str]:
        """Return the text of a file and its codec."""
        return decoded(path, self.sandbox.read(_relative(path), max_bytes=MAX_FILE_BYTES))

    def _read(self, path: str) -> bytes | None:
        try:
            return self.sandbox.read(path, max_bytes=MAX_FILE_BYTES)
        except ToolError as problem:
            if getattr(problem, "kind", "") == "not_found":
                return None
            raise

    def _write(self, path: str, text: str, codec: str | None = None) -> None:
        data = encoded(path, text, codec)
        self.changed = True
        self.sandbox.write(_relative(path), data)


@cache
def _search_program() -> str:
    return Path(text_codec.__file__).read_text(encoding="utf-8") + _SEARCH


@cache
def _runner() -> str:
    return Path(__file__).with_name("inside_work.py").read_text(encoding="utf-8")


def _relative(path: str) -> str:
    """Return a path if it is valid; an empty one means the root."""
    if "\0" in path or any("\ud800" <= char <= "\udfff" for char in path):
        raise ToolError("A path must not contain NUL characters or lone surrogates.")
    return path or "."
