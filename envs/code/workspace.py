"""`Workspace`: the sandbox of one episode, opened when it is first needed, with its sessions and its text files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentgym.errors import ToolError
from agentgym.tools.sandbox import Ended, Limits, Result, Sandbox, Session

MAX_FILE_BYTES = 1_000_000
MAX_LINES = 200
"""Lines that `view` shows at once."""


class Workspace:
    """A place to run code and keep files in.

    Args:
        opener: Opens a sandbox.
        stateful: Keep names and shell variables from one run to the next.
        staged: Text files that are there from the beginning.
    """

    def __init__(self, opener: Callable[[], Sandbox], stateful: bool, staged: Mapping[str, str]):
        self._opener, self._stateful, self._staged = opener, stateful, staged
        self._sandbox: Sandbox | None = None
        self._python: Session | None = None
        self._bash: Session | None = None

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, opened now if it was not."""
        if self._sandbox is None:
            self._sandbox = self._opener()
            for path, text in self._staged.items():
                self.write(path, text)
        return self._sandbox

    def python(self, code: str) -> Result:
        """Run Python code."""
        if not self._stateful:
            return self._known(self.sandbox.exec(code=code))
        if self._python is None:
            self._python = self.sandbox.python()
        return self._known(self._python.run(code))

    def bash(self, command: str) -> Result:
        """Run a shell command."""
        if not self._stateful:
            return self._known(self.sandbox.exec(["bash", "-c", command]))
        if self._bash is None:
            self._bash = self.sandbox.bash()
        return self._known(self._bash.run(command))

    def exec(self, *, code: str, stdin: bytes, limits: Limits | None) -> Result:
        """Run a program in a process of its own."""
        return self._known(self.sandbox.exec(code=code, stdin=stdin, limits=limits))

    def read(self, path: str) -> str:
        """Return a text file. Raises `ToolError`."""
        return self.sandbox.read(path, MAX_FILE_BYTES).decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """Write a text file. Raises `ToolError`."""
        self.sandbox.write(path, text.encode("utf-8", "replace"))

    def view(self, path: str, start: int, end: int | None) -> str:
        """Return lines of a file with their numbers. Raises `ToolError`."""
        lines = self.read(path).splitlines()
        last = min(len(lines), start + MAX_LINES - 1 if end is None else end)
        if not lines:
            return f"{path} is empty."
        if not 1 <= start <= last:
            raise ToolError(f"{path} has lines 1 to {len(lines)}; {start} to {end or last} is none of that.")
        shown = [f"{number}: {lines[number - 1]}" for number in range(start, last + 1)]
        rest = f"[{len(lines)} lines in all]" if (start, last) != (1, len(lines)) else ""
        return "\n".join([*shown, rest] if rest else shown)

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace the one place where `old` stands. Raises `ToolError` if there is none, or more than one."""
        text = self.read(path)
        count = text.count(old) if old else 0
        if count != 1:
            advice = (
                "give more of the text around it" if count else "copy it exactly from the file, without line numbers"
            )
            raise ToolError(f"{path}: old must occur once, but occurs {count} times; {advice}.")
        line = text[: text.index(old)].count("\n") + 1
        self.write(path, text.replace(old, new))
        return f"Edited {path} at line {line}."

    def close(self) -> None:
        """End the sandbox and all that runs in it."""
        sandbox, self._sandbox, self._python, self._bash = self._sandbox, None, None, None
        if sandbox is not None:
            sandbox.close()

    def _known(self, result: Result) -> Result:
        """Return a result; a sandbox that did not survive the run is opened again when needed."""
        if result.ended is Ended.KILLED:
            self.close()
        return result
