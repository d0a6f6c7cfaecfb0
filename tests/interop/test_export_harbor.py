"""Our tasks as Harbor folders: judged there as here, playable by us again, and valid for Harbor itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli import app
from agentgym.envs.code import CodeEnv
from agentgym.envs.guess import GuessEnv
from agentgym.envs.terminal import TerminalEnv
from agentgym.envs.terminal.exporting.export import export_harbor
from agentgym.envs.terminal.exporting.grader import grader_files
from agentgym.errors import UsageError
from agentgym.messages import ToolCall, assistant
from agentgym.script import steps
from agentgym.task import Task
from agentgym.tasks.folders import FolderTasks
from agentgym.tools.sandbox.containers.daemon import Daemon
from agentgym.tools.terminal import Machine, MachineSpec
from agentgym.tools.terminal.building import packed, packed_files
from tests.task_folders import BASE

KINDS = ("function", "fix", "value", "predict")


def tasks_of(kind: str, number: int = 2) -> list[Task]:
    source = CodeEnv(kinds=kind).tasks
    return [source.get("test", index) for index in range(number)]


def exported(out: Path, tasks: list[Task]) -> list[Path]:
    return export_harbor(CodeEnv(), "agentgym/code-v0", tasks, out, BASE or "python:3.12-slim")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    if not BASE:
        pytest.skip('run first: eval "$(.ci/docker start)"')
    made = Machine.start(Daemon(), MachineSpec(BASE))
    yield made
    made.close()


def graded(machine: Machine, folder: Path, answer: str) -> dict[str, float]:
    """Run the tests of a folder as Harbor does, on an answer."""
    place = json.loads((folder / "tests/task.json").read_text())["answer"]
    machine.put(packed_files({place[1:]: answer.encode()}))
    machine.put(packed(folder / "tests", under="tests"))
    ran = machine.run(["/tests/test.sh"], wall_s=120.0)
    assert ran.exit_code == 0, ran
    assert machine.read("/tests/task.json", 100) is None
    return json.loads(machine.read("/logs/verifier/reward.json", 1000) or b"")


@pytest.mark.docker
@pytest.mark.parametrize("kind", KINDS)
def test_the_gold_scores_1_and_nothing_0_without_any_package_installed(tmp_path: Path, machine: Machine, kind: str):
    [task] = tasks_of(kind, 1)
    [folder] = exported(tmp_path / "out", [task])
    gold = task.gold["code" if kind in ("function", "fix") else "answer"]
    for name, answer, reward in (("gold", gold, 1.0), ("empty", "", 0.0), ("junk", "def", 0.0)):
        assert graded(machine, folder, answer)["reward"] == reward, name


@pytest.mark.docker
def test_the_grader_of_a_folder_judges_as_the_environment_does(tmp_path: Path, machine: Machine):
    """Right, half right, crashing, ending the process, keeping state, and the given code that is to be repaired."""
    [task] = tasks_of("fix", 1)
    [folder] = exported(tmp_path / "out", [task])
    name = task.data["entry_point"]
    head = task.data["signature"].rstrip()
    answers = {
        "gold": task.gold["code"],
        "given": task.data["code"],
        "constant": f"{head}\n    return 1\n",
        "ends": f"import os\n{head}\n    os._exit(0)\n",
        "raises": f"{head}\n    raise SystemExit\n",
        "remembers": task.gold["code"] + f"\n_real, _calls = {name}, []\n{head}\n    _calls.append(1)\n"
        f"    return _real({', '.join(_parameters(head))}) if len(_calls) == 1 else None\n",
    }
    for label, answer in answers.items():
        there = graded(machine, folder, answer)["reward"]
        assert there == _here(task, answer), label


def _parameters(head: str) -> list[str]:
    return [part.partition(":")[0].strip() for part in head.partition("(")[2].rpartition(")")[0].split(",")]


def _here(task: Task, answer: str) -> float:
    env = CodeEnv(scheme="outcome")
    try:
        env.reset(options={"task": task})
        return env.step(assistant("", [ToolCall("submit", {"answer": answer})])).info["rewards"]["outcome"]
    finally:
        env.close()


def test_the_agent_finds_no_test_in_its_image_and_no_gold_in_the_instruction(tmp_path: Path):
    [folder] = exported(tmp_path, tasks_of("fix", 1))
    assert sorted(path.name for path in (folder / "environment").iterdir()) == ["Dockerfile", "solution.py"]
    assert "/tests" not in (folder / "environment/Dockerfile").read_text()


def test_the_grader_needs_only_the_standard_library():
    from agentgym.envs.terminal.exporting.grader import _imported  # pyright: ignore[reportPrivateUsage]

    files = grader_files()
    for path, source in files.items():
        modules = {module.replace(".", "/") for module in _imported(source)}
        missing = [m for m in modules if f"{m}.py" not in files and f"{m}/__init__.py" not in files]
        assert missing == [], path
    third = Counter(word for source in files.values() for word in ("import numpy", "import pydantic") if word in source)
    assert third == {}


def test_the_command_writes_folders_that_we_read(tmp_path: Path):
    out = tmp_path / "out"
    words = ["tasks", "export-harbor", "code", "--out", str(out), "-n", "3", "--set", "kinds=value"]
    ran = CliRunner().invoke(app, words)
    assert (ran.exit_code, ran.output) == (0, f"Wrote 3 task folders to {out}\n")
    source = FolderTasks(out, split_by="test")
    assert source.size("test") == 3
    assert source.left_out == ()
    again = CliRunner().invoke(app, words)
    assert again.exit_code != 0


def test_tasks_of_other_environments_are_refused_with_a_reason(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be written as Harbor folders"):
        export_harbor(GuessEnv(), "agentgym/guess-v0", [], tmp_path, "image")


@pytest.mark.docker
@pytest.mark.skipif(not BASE, reason='run first: eval "$(.ci/docker start)"')
@pytest.mark.parametrize("kind", KINDS)
def test_exported_and_imported_the_solution_scores_1_and_nothing_0(tmp_path: Path, kind: str):
    [folder] = exported(tmp_path, tasks_of(kind, 1))
    env = TerminalEnv(folder=folder, split_by="test")
    try:
        env.reset(options={"index": 0})
        assert list(steps(env, env.solution(env.task)))[-1].reward == 1.0
        env.reset(options={"index": 0})
        assert env.step(assistant("", [ToolCall("submit")])).reward == 0.0
    finally:
        env.close()


@pytest.mark.docker
@pytest.mark.skipif(not BASE, reason='run first: eval "$(.ci/docker start)"')
def test_a_submission_cannot_read_the_tests_that_judge_it(tmp_path: Path):
    [task] = tasks_of("function", 1)
    [folder] = exported(tmp_path, [task])
    spy = "import glob, os\nfound = [p for p in glob.glob('/tests/**', recursive=True)]\n"
    spy += "for p in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n"
    spy += "    try:\n        found += [p] if b'cases' in open(p, 'rb').read() else []\n    except OSError: pass\n"
    spy += "if [p for p in found if p != '/tests/']: raise RuntimeError\nassert os.getuid() != 0\n"
    env = TerminalEnv(folder=folder, split_by="test")
    try:
        env.reset(options={"index": 0})
        env.step(assistant("", [ToolCall("write", {"path": "/app/solution.py", "content": spy + task.gold["code"]})]))
        assert env.step(assistant("", [ToolCall("submit")])).reward == 1.0
    finally:
        env.close()


@pytest.mark.peers
def test_harbor_itself_reads_the_folders(tmp_path: Path):
    why = "harbor: not in this environment (it needs Python 3.12)"
    harbor = pytest.importorskip("harbor.models.task.task", reason=why)
    tasks = [task for kind in KINDS for task in tasks_of(kind, 1)]
    for folder, task in zip(exported(tmp_path, tasks), tasks, strict=True):
        assert harbor.Task.is_valid_dir(folder)
        read = harbor.Task(folder)
        assert task.prompt.strip() in read.instruction
        assert read.config.environment.network_mode.value == "no-network"
