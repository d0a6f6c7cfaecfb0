"""`TerminalEnv`: work on a machine in a shell: tasks that are folders with a Dockerfile and tests.

Machines come from `agentgym.tools.terminal`, tasks from `agentgym.tasks.folders`, the verdict from `verifying`.
"""

from __future__ import annotations

import base64
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol, get_args, runtime_checkable

from agentgym.base.choices import one_of
from agentgym.base.errors import ToolError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME, SOLVED_AT, Channel
from agentgym.core.task import Task, TaskSource
from agentgym.core.task_files import Layout, TaskFiles
from agentgym.core.toolset import tool
from agentgym.envs.terminal.machines import TaskMachine, agents_machine
from agentgym.envs.terminal.verifying import Leftovers, TerminalVerdict, judge
from agentgym.tasks.folders import TaskFolder
from agentgym.tasks.folders.spec import SOLUTION_PLACE
from agentgym.tools.sandbox.containers.calls import ContainerCallOutcome
from agentgym.tools.sandbox.containers.daemon import Daemon
from agentgym.tools.terminal import CommandOutput, Machine, MachineLost, Shell
from agentgym.tools.text_codec import split_lines
from agentgym.tools.text_files import count_of, decoded, encoded, replaced, steady, viewed

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
        return viewed(path, self._text(path)[0], start, end)

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text that occurs exactly once."""
        text, codec = self._text(path)
        text, message = replaced(path, text, old, new)
        self._write(path, encoded(path, text, codec))
        return message

    def write(self, path: str, content: str) -> str:
        """Write a file; create missing folders."""
        self._write(path, encoded(path, content))
        return f"Wrote {path}, {count_of(len(split_lines(content)), 'line')}."

    def _write(self, path: str, data: bytes) -> None:
        self._done(path, self._run(_WRITE, path, data))

    def _text(self, path: str) -> tuple[str, str]:
        """Return the text of a file and its codec."""
        ended = self._run(_READ, path)
        if ended.exit_code == _TOO_LARGE:
            raise ToolError(f"{path} has more than {MAX_FILE_BYTES} bytes; read parts of it with bash.")
        self._done(path, ended)
        return decoded(path, ended.stdout)

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


FILES = TaskFiles(
    argument="folder",
    loader="agentgym.tasks.folders.source:FolderTasks",
    options={
        "network": "none, or task: what each task says, which is the internet unless it says otherwise",
        "variables": "values for the environment variables that tasks ask for, by name",
        "split_by": "auto, file (the folder that the tasks are in), hash, or one split: train, validation, test",
    },
    layouts=(
        Layout("Harbor", "task folders: task.toml, instruction.md, environment, tests, solution", "folder=TASKS"),
        Layout("Terminal-Bench 2", "the same; its tests download what they need", "folder=TASKS --set network=task"),
        Layout("Terminal-Bench 1", "task folders with task.yaml, Dockerfile and run-tests.sh", "folder=TASKS"),
    ),
)


@runtime_checkable
class HasFolders(Protocol):
    """A task source that knows the folders of its tasks."""

    def folder(self, task: Task) -> TaskFolder:
        """Return the folder of a task."""
        ...


def folder_of(source: TaskSource, task: Task) -> TaskFolder:
    """Return the folder of a task. Raises `UsageError` if the source has no folders."""
    if not isinstance(source, HasFolders):
        raise UsageError(f"the folder of task {task.id!r} is unknown; pass folder=..., or a source with folder(task)")
    return source.folder(task)


_PIECE = 60_000
"""Bytes of a binary file in one command."""


def solve(folder: TaskFolder, command_s: float) -> Solution:
    """Yield the calls that solve a task."""
    if folder.solution is None:
        raise UsageError(f"task {folder.name!r} has no solution of its own")
    for path in _files(folder.solution, folder.solution_script):
        yield from _written(path, f"{SOLUTION_PLACE}/{path.relative_to(folder.solution)}")
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in folder.solution_environment.items())
    script = f"{SOLUTION_PLACE}/{folder.solution_script}"
    command = f"chmod +x {script}; {variables} {script}" if variables else f"chmod +x {script}; {script}"
    yield ToolCall("bash", {"command": command, "timeout_s": command_s})
    yield ToolCall("submit")


def _files(folder: Path, script: str) -> list[Path]:
    """Return the files of a solution, the script last; only the script if it is not in a folder of its own."""
    if script != "solve.sh":
        return [folder / script]
    return sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name == script)


def _written(path: Path, place: str) -> Iterator[ToolCall]:
    data = path.read_bytes()
    try:
        yield ToolCall("write", {"path": place, "content": data.decode("utf-8")})
    except UnicodeDecodeError:
        yield ToolCall("write", {"path": place, "content": ""})
        for start in range(0, len(data), _PIECE):
            piece = base64.b64encode(data[start : start + _PIECE]).decode()
            yield ToolCall("bash", {"command": f"base64 -d <<< {piece} >> {shlex.quote(place)}"})


_STOPPED = {"time": "It took too long and was stopped.", "output": "It printed too much and was stopped."}


class TerminalEnv(Env):
    """Work on a machine in a shell.

    Task: a folder in the format of Harbor or Terminal-Bench: an instruction, a Dockerfile, and tests that decide.
    Tools: `bash(command, timeout_s)`, a shell that keeps its folder, variables and background jobs; `view`, `edit` and
        `write` for files; `submit`.
    Observation: terse text; both outputs of a command as they came (long output loses its middle), without durations
        and addresses.
    Reward: `outcome` is what the task's tests give, a number from 0 to 1. They come onto the machine when the episode
        is over, whichever way it ends.
    Episode end: the work is submitted, the task's own time is up, or 50 turns have passed.
    Needs: the extra `[docker]` and a Docker engine.
    Version history: v0, first version.

    Args:
        folder: A task folder, or a folder of them.
        network: `"none"`, or `"task"`: what each task says, which is the internet unless it says otherwise.
        variables: Values for the environment variables that tasks ask for; those of this process are not passed on.
        split_by: `"auto"`, `"file"` (the folder that the tasks are in), `"hash"`, or the one split of all tasks.
        strict: Refuse a broken folder, instead of leaving it out.
        leftovers: What happens to programs that the agent left running, before the tests run on its machine: `"keep"`,
            as tasks about servers need it, or `"kill"`.
        command_s: Most seconds that a command may take.
        tasks: A custom task source, instead of a folder.
        kwargs: Arguments of `agentgym.Env`. `time_limit_s` replaces the time limits of the tasks.
    """

    channels = {OUTCOME: Channel("what the tests give, from 0 to 1")}
    files = FILES
    system_prompt = (
        "You work on a Linux machine. Do what the first message asks, with the tools. When you are done, call submit: "
        "that ends the episode, and tests that you cannot see decide how well the task is solved."
    )
    states_turns = True
    example_call = ToolCall("bash", {"command": "ls -la"})
    max_turns = 50
    max_concurrent = 16
    unrepeatable = "programs on its machine go on running between turns"

    harmless_arguments = Env.harmless_arguments | {"split_by", "strict", "command_s"}

    def __init__(
        self,
        *,
        folder: str | Path | None = None,
        network: str | None = None,
        variables: Mapping[str, str] | None = None,
        split_by: str | None = None,
        strict: bool = False,
        leftovers: Leftovers = "keep",
        command_s: float = 600.0,
        tasks: TaskSource | None = None,
        **kwargs: Any,
    ):
        choices = {
            "folder": folder,
            "network": network,
            "variables": variables,
            "split_by": split_by,
            "strict": strict,
        }
        super().__init__(tasks=FILES.source(tasks, choices), **kwargs)
        self._leftovers: Leftovers = one_of("leftovers", leftovers, get_args(Leftovers))
        if not command_s > 0:
            raise UsageError(f"command_s must be above 0, not {command_s!r}")
        self._command_s = command_s
        self._docker: Daemon | None = None
        self._machine: TaskMachine | None = None
        self._shell: Shell | None = None
        self._verdict: TerminalVerdict | None = None
        self._lost = False

    @classmethod
    def packages(cls, kwargs: Mapping[str, Any]) -> Mapping[str, str]:
        """See `Env.packages`."""
        return {"docker": "docker"}

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Raise `UsageError`: the tasks are folders."""
        raise UsageError("this environment has no tasks of its own; pass folder=..., a folder of Harbor tasks")

    def start(self, task: Task) -> str:
        """Return the instruction. The machine is started by the first call."""
        self.release()
        self._verdict, self._lost = None, False
        seconds = self._folder.agent.timeout_s
        if self.time_limit_s is None and seconds is not None:
            self._deadline = time.monotonic() + seconds
        return task.prompt

    @tool(max_chars=16_000)
    def bash(self, command: str, timeout_s: float = 60.0) -> str:
        """Run a command in a shell that keeps its folder, variables and background jobs.

        Args:
            command: Any bash, also of several lines. It has no keyboard: commands that ask for input get none.
            timeout_s: Seconds after which it is stopped.
        """
        if not command.strip() or "\0" in command:
            raise ToolError("The command is empty, or contains a NUL character.")
        if not 0 < timeout_s <= self._command_s:
            raise ToolError(f"`timeout_s` must be above 0 and at most {self._command_s:g}.")
        try:
            return _shown(self._open_shell().run(command, timeout_s))
        except MachineLost:
            self._replace_machine()

    @tool(max_chars=16_000)
    def view(self, path: str, start: int = 1, end: int | None = None) -> str:
        """Show lines of a file with their numbers.

        Args:
            path: The file.
            start: First line to show.
            end: Last line to show; by default, 200 lines are shown.
        """
        return self._on_files(lambda files: files.view(path, start, end))

    @tool
    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text that occurs exactly once in a file.

        Args:
            path: The file.
            old: The text to replace, exactly, without line numbers.
            new: The replacement.
        """
        return self._on_files(lambda files: files.edit(path, old, new))

    @tool
    def write(self, path: str, content: str) -> str:
        """Write a file. Folders that do not exist are created.

        Args:
            path: The file.
            content: Its complete text.
        """
        return self._on_files(lambda files: files.write(path, content))

    @tool
    def submit(self) -> str:
        """Submit the machine as it is now. Ends the episode."""
        verdict = self._judged()
        self.finish(Reason.SOLVED if verdict.reward >= SOLVED_AT else Reason.ANSWERED)
        return "Submitted."

    def grade(self) -> Mapping[str, float]:
        """Run the tests, unless they have run, and remove the machine."""
        verdict = self._judged()
        self.release()
        return {OUTCOME: verdict.reward}

    def details(self) -> Mapping[str, Any]:
        """Return whether the machine was lost, and the result of the tests."""
        details: dict[str, Any] = {"machine_lost": True} if self._lost else {}
        if self._verdict is not None:
            details["tests"] = {
                "rewards": dict(self._verdict.rewards),
                "left_running": self._verdict.left_running,
                "broken": bool(self._verdict.note),
            }
        return details

    def solution(self, task: Task) -> Solution:
        """Put the task's own solution onto the machine, run it and submit."""
        return solve(folder_of(self.tasks, task), self._command_s)

    def release(self) -> None:
        """Remove the machine of the episode."""
        shell, machine = self._shell, self._machine
        self._shell = self._machine = None
        if shell is not None:
            shell.close()
        if machine is not None:
            machine.close()
        if self._docker is not None:
            self._docker.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_docker": None, "_shell": None, "_machine": None}

    @property
    def _folder(self) -> TaskFolder:
        return folder_of(self.tasks, self.task)

    def _open_machine(self) -> TaskMachine:
        if self._machine is None:
            self._docker = self._docker or Daemon()
            self._machine = agents_machine(self._folder, self._docker)
        return self._machine

    def _open_shell(self) -> Shell:
        if self._shell is None:
            machine = self._open_machine()
            self._shell = Shell(machine.machine, user=self._folder.agent.user, cwd=machine.workdir)
        return self._shell

    def _on_files(self, work: Any) -> str:
        machine = self._open_machine()
        try:
            return work(Files(machine.machine, self._folder.agent.user, machine.workdir))
        except MachineLost:
            self._replace_machine()

    def _replace_machine(self) -> NoReturn:
        self.release()
        self._lost = True
        raise ToolError("The command ended the whole machine. A new one was set up, in its original state.")

    def _judged(self) -> TerminalVerdict:
        if self._verdict is None:
            machine = self._open_machine()
            if self._shell is not None:
                self._shell.close()
                self._shell = None
            self._verdict = judge(self._folder, machine, self._leftovers)
        return self._verdict


def _shown(result: CommandOutput) -> str:
    lines = [steady(result.output).rstrip()]
    if result.stopped:
        lines.append(f"({_STOPPED[result.stopped]})")
    elif result.exit_code:
        lines.append(f"(exit code {result.exit_code})")
    if result.restarted:
        lines.append("(The shell has ended; the next command runs in a new one.)")
    return "\n".join(line for line in lines if line) or "No output."
