"""Files of a machine, viewed and changed as text, with instructive errors."""

from __future__ import annotations

from agentgym.errors import ToolError
from agentgym.tools.sandbox.containers.calls import ContainerCallOutcome
from agentgym.tools.terminal import Machine
from agentgym.tools.text_files import count_of, replaced, viewed

MAX_FILE_BYTES = 2_000_000
_FILE_S = 60.0
_READ = f'[ "$(stat -L -c %s -- "$1" 2>/dev/null || echo 0)" -le {MAX_FILE_BYTES} ] || exit 47; cat -- "$1"'
_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'
_TOO_LARGE = 47


class Files:
    """Reads and writes files of a machine as its user.

    Args:
        machine: The machine.
        user: The user; that of the image if empty.
        workdir: Folder that relative paths start from.
    """

    def __init__(self, machine: Machine, user: str, workdir: str):
        self._machine, self._user, self._workdir = machine, user, workdir

    def view(self, path: str, start: int, end: int | None) -> str:
        """Return lines with their numbers."""
        return viewed(path, self.text(path), start, end)

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text that occurs exactly once."""
        text, message = replaced(path, self.text(path), old, new)
        self.write(path, text)
        return message

    def write(self, path: str, content: str) -> str:
        """Write a file; create missing folders."""
        try:
            data = content.encode("utf-8")
        except UnicodeEncodeError:
            raise ToolError("The text contains lone surrogates, which no file can hold.") from None
        self._done(path, self._run(_WRITE, path, data))
        return f"Wrote {path}, {count_of(len(content.splitlines()), 'line')}."

    def text(self, path: str) -> str:
        """Return the text of a file."""
        ended = self._run(_READ, path)
        if ended.exit_code == _TOO_LARGE:
            raise ToolError(f"{path} has more than {MAX_FILE_BYTES} bytes; read parts of it with bash.")
        self._done(path, ended)
        try:
            return ended.stdout.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolError(f"{path} is not a text file.") from None

    def _run(self, script: str, path: str, stdin: bytes = b"") -> ContainerCallOutcome:
        if not path or "\0" in path or any("\ud800" <= char <= "\udfff" for char in path):
            raise ToolError("A path must not be empty, nor contain NUL characters or lone surrogates.")
        return self._machine.run(
            ["bash", "-c", script, "bash", path],
            wall_s=_FILE_S,
            stdin=stdin,
            user=self._user,
            cwd=self._workdir,
            output_bytes=2 * MAX_FILE_BYTES + 2,
        )

    @staticmethod
    def _done(path: str, ended: ContainerCallOutcome) -> None:
        if ended.exit_code != 0:
            why = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise ToolError(f"{path}: {why or f'exit code {ended.exit_code}'}")
