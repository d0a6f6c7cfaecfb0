"""`MCPMarkEnv`: the filesystem tasks of MCPMark, on a copy of their files, judged by their own scripts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from agentgym.envs.mcpmark.files import Folder
from agentgym.envs.mcpmark.judged import JudgedEnv
from agentgym.errors import InfrastructureError, UsageError
from agentgym.messages import ToolCall
from agentgym.rewards import OUTCOME, Channel
from agentgym.task import Task, TaskSource
from agentgym.task_files.declaring import Layout, TaskFiles
from agentgym.tasks.mcpmark import MCPMarkTasks
from agentgym.tools.sandbox import Ended, Result, SandboxLimits, SandboxSpec, open_sandbox
from agentgym.toolset import tool

_VARIABLE = "FILESYSTEM_TEST_DIR"
_LIMITS = SandboxLimits(wall_s=300.0, cpu_s=120.0, memory_mb=2048, total_memory_mb=3072)

FILES = TaskFiles(
    argument="folder",
    loader="agentgym.tasks.mcpmark:MCPMarkTasks",
    options={
        "environments": "folder of the initial files, with one folder for each category",
        "split_by": "auto or hash (the content decides), or one split: train, validation, test",
    },
    layouts=(
        Layout(
            "MCPMark",
            "tasks/filesystem of its repository, and the files that it downloads",
            "folder=tasks/filesystem --set environments=test_environments",
        ),
    ),
)


class MCPMarkEnv(JudgedEnv):
    """Work on the files of a folder.

    Task: a filesystem task of MCPMark: split, sort, summarise or extract from the files of a folder.
    Tools: those of an MCP filesystem server: `list_directory`, `directory_tree`, `search_files`, `read_text_file`,
        `get_file_info`, `write_file`, `edit_file`, `create_directory`, `move_file`.
    Observation: terse text.
    Reward: `outcome` 1 if the task's own `verify.py` accepts the folder. It runs in a sandbox that can only read it.
    Episode end: a turn without a call, or 100 turns.
    Needs: a sandbox (`agentgym doctor`).
    Version history: v0, first version.

    Args:
        folder: A folder of tasks, such as `tasks/filesystem` of MCPMark's repository.
        environments: The folder of the initial files, with one folder for each category.
        split_by: `"auto"`, `"hash"`, or the one split of all tasks.
        strict: Refuse a broken task, instead of leaving it out.
        backend: Sandbox backend for `verify.py`; `"auto"` selects the strongest that works.
        allow_weak: Accept a backend that does not confine everything.
        tasks: A custom task source, instead of a folder.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = {OUTCOME: Channel("1 if the task's own script accepts the folder")}
    files = FILES
    system_prompt = (
        "You work on the files of a folder with the tools; paths are relative to it. When you are done, answer in "
        "plain text without a call: that ends the episode, and a script checks the folder."
    )
    example_call = ToolCall("list_directory", {"path": "."})
    needs = "folder=... and environments=..."

    def __init__(
        self,
        *,
        folder: str | Path | None = None,
        environments: str | Path | None = None,
        split_by: str | None = None,
        strict: bool = False,
        backend: str = "auto",
        allow_weak: bool = False,
        tasks: TaskSource | None = None,
        **kwargs: Any,
    ):
        choices = {"folder": folder, "environments": environments, "split_by": split_by, "strict": strict}
        if folder is not None and environments is None:
            raise UsageError("folder=... needs environments=... too: the folder of the initial files")
        super().__init__(tasks=FILES.source(tasks, choices), **kwargs)
        self._backend, self._allow_weak = backend, allow_weak
        self._temporary: Path | None = None

    def prepare(self, task: Task) -> None:
        """Copy the initial files."""
        initial = self._initial
        self._temporary = Path(tempfile.mkdtemp(prefix="agentgym-mcpmark-"))
        # Times are kept: some tasks ask for them.
        shutil.copytree(initial, self._root, symlinks=True)

    def accepts(self) -> bool:
        """Return whether the task's script accepts the folder.

        Raises:
            InfrastructureError: It did not come to an end.
        """
        ended = self._verified(self._root)
        if ended.ended is not Ended.EXITED:
            self._check_untouched(ended.message)
            ended = self._verified(self._root)  # once more, since what broke it may be over
        return ended.ended is Ended.EXITED and ended.exit_code == 0

    @tool
    def list_directory(self, path: str = ".") -> str:
        """List the entries of a folder.

        Args:
            path: The folder.
        """
        return self._folder.listing(path)

    @tool
    def directory_tree(self, path: str = ".") -> str:
        """List everything below a folder.

        Args:
            path: The folder.
        """
        return self._folder.tree(path)

    @tool
    def search_files(self, pattern: str, path: str = ".") -> str:
        """Find files and folders by name.

        Args:
            pattern: A pattern such as `*.txt`.
            path: The folder to search.
        """
        return self._folder.search(path, pattern)

    @tool(max_chars=40_000)
    def read_text_file(self, path: str, head: int | None = None, tail: int | None = None) -> str:
        """Read a text file.

        Args:
            path: The file.
            head: Show only so many first lines.
            tail: Show only so many last lines.
        """
        return self._folder.read(path, head, tail)

    @tool
    def get_file_info(self, path: str) -> str:
        """Show the size and the times of a file or folder.

        Args:
            path: The file or folder.
        """
        return self._folder.info(path)

    @tool
    def write_file(self, path: str, content: str) -> str:
        """Write a file, replacing one that exists.

        Args:
            path: The file.
            content: Its complete text.
        """
        return self._folder.write(path, content)

    @tool
    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace text that occurs exactly once in a file.

        Args:
            path: The file.
            old: The text to replace.
            new: The replacement.
        """
        return self._folder.edit(path, old, new)

    @tool
    def create_directory(self, path: str) -> str:
        """Create a folder, and those that it is in.

        Args:
            path: The folder.
        """
        return self._folder.make(path)

    @tool
    def move_file(self, source: str, destination: str) -> str:
        """Move or rename a file or folder.

        Args:
            source: What to move.
            destination: Its new path.
        """
        return self._folder.move(source, destination)

    def release(self) -> None:
        """Remove the files of the episode."""
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_temporary": None}

    @property
    def _root(self) -> Path:
        assert self._temporary is not None
        return self._temporary / str(self.task.data["category"])

    @property
    def _initial(self) -> Path:
        if not isinstance(self.tasks, MCPMarkTasks):
            raise UsageError(f"the files of task {self.task.id!r} are unknown; pass {self.needs}")
        return self.tasks.initial(self.task)

    @property
    def _folder(self) -> Folder:
        return Folder(self._root)

    def _check_untouched(self, message: str) -> None:
        """Raise `InfrastructureError` if the script does not end on the initial files either."""
        assert self._temporary is not None
        fresh = Path(tempfile.mkdtemp(dir=self._temporary)) / self._root.name
        fresh.parent.chmod(0o755)
        shutil.copytree(self._initial, fresh, symlinks=True)
        try:
            if self._verified(fresh).ended is not Ended.EXITED:
                raise InfrastructureError(f"verify.py of task {self.task.id!r} did not end: {message}")
        finally:
            shutil.rmtree(fresh.parent, ignore_errors=True)

    def _verified(self, folder: Path) -> Result:
        """Run the task's script on a folder."""
        assert self._temporary is not None
        self._temporary.chmod(0o755)
        spec = SandboxSpec(limits=_LIMITS, readable=(self._temporary,))
        with open_sandbox(spec, backend=self._backend, allow_weak=self._allow_weak) as sandbox:
            return sandbox.exec(code=self.task.gold["verify"], env={_VARIABLE: str(folder)})
