"""`CodeWorkspace`: the sandbox of one episode, opened on first use, with its sessions and text files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentgym.tools.sandbox import Ended, Result, Sandbox, SandboxLimits, SandboxSession
from agentgym.tools.text_files import decoded, encoded, replaced, viewed

MAX_FILE_BYTES = 1_000_000


class CodeWorkspace:
    """A place to run code and keep files in.

    Args:
        opener: Opens a sandbox.
        stateful: Keep Python names and shell variables from one run to the next.
        staged: Text files to write when the sandbox opens.
    """

    def __init__(self, opener: Callable[[], Sandbox], stateful: bool, staged: Mapping[str, str]):
        self._opener, self._stateful, self._staged = opener, stateful, staged
        self._sandbox: Sandbox | None = None
        self._python: SandboxSession | None = None
        self._bash: SandboxSession | None = None

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, opened on first use."""
        if self._sandbox is None:
            self._sandbox = self._opener()
            for path, text in self._staged.items():
                self.write(path, text)
        return self._sandbox

    def python(self, code: str) -> Result:
        """Run Python code."""
        if not self._stateful:
            return self._checked(self.sandbox.exec(code=code))
        if self._python is None:
            self._python = self.sandbox.python()
        return self._checked(self._python.run(code))

    def bash(self, command: str) -> Result:
        """Run a shell command."""
        if not self._stateful:
            return self._checked(self.sandbox.exec(["bash", "-c", command]))
        if self._bash is None:
            self._bash = self.sandbox.bash()
        return self._checked(self._bash.run(command))

    def exec(self, *, code: str, stdin: bytes, limits: SandboxLimits | None) -> Result:
        """Run a program in a process of its own."""
        return self._checked(self.sandbox.exec(code=code, stdin=stdin, limits=limits))

    def read(self, path: str) -> str:
        """Return a text file. Raises `ToolError`."""
        return self._text(path)[0]

    def write(self, path: str, text: str, codec: str | None = None) -> None:
        """Write a text file, by default in the codec of a new file. Raises `ToolError`."""
        self.sandbox.write(path, encoded(path, text, codec))

    def view(self, path: str, start: int, end: int | None) -> str:
        """Return lines of a file with their numbers. Raises `ToolError`."""
        return viewed(path, self.read(path), start, end)

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace the only occurrence of `old`. Raises `ToolError` unless it occurs exactly once."""
        text, codec = self._text(path)
        text, message = replaced(path, text, old, new)
        self.write(path, text, codec)
        return message

    def close(self) -> None:
        """Close the sandbox, and end everything that runs in it."""
        sandbox, self._sandbox, self._python, self._bash = self._sandbox, None, None, None
        if sandbox is not None:
            sandbox.close()

    def _text(self, path: str) -> tuple[str, str]:
        """Return a text file and its codec."""
        return decoded(path, self.sandbox.read(path, MAX_FILE_BYTES))

    def _checked(self, result: Result) -> Result:
        """Return a result; close a sandbox that did not survive the run, so that the next use opens another."""
        if result.ended is Ended.KILLED:
            self.close()
        return result
