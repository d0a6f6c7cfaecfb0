"""Our tasks as Harbor folders: judged there as here, playable by us again, and valid for Harbor itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, assistant
from agentgym.core.policy import steps
from agentgym.core.task import Task
from agentgym.envs.code import CodeEnv
from agentgym.envs.sql import SQLEnv
from agentgym.envs.swe import SWEEnv
from agentgym.envs.terminal import TerminalEnv
from agentgym.tasks.folders import FolderTasks
from tests.harbor_folders import IS_ROOT, exported, judge, machine_of, solve
from tests.rows import each_row
from tests.swe_cases import write_tasks
from tests.task_folders import BASE

KINDS = ("function", "fix", "value", "predict")
needs_image = pytest.mark.skipif(not BASE, reason='run first: eval "$(.ci/docker start)"')


def code_task(kind: str) -> Task:
    return CodeEnv(kinds=kind).tasks.get("test", 0)


def ordered_task(env: SQLEnv) -> Task:
    candidates = (env.tasks.get("test", index) for index in range(50))
    return next(task for task in candidates if task.gold["ordered"])


def written(name: str, tmp_path: Path) -> tuple[Env, Task]:
    """One task of an environment."""
    if name in KINDS:
        return CodeEnv(), code_task(name)
    if name == "sql":
        env = SQLEnv(engine="sqlite")
        return env, ordered_task(env)
    (tmp_path / "rows").mkdir()
    env = SWEEnv(file=write_tasks(tmp_path / "rows"), split_by="test")
    return env, env.tasks.get("test", 0)


ALL = (*KINDS, "sql", "swe")


@pytest.mark.real
@each_row("name", ALL)
def test_without_any_package_installed_the_solution_scores_1_and_nothing_0(tmp_path: Path, name: str):
    folder = exported(*written(name, tmp_path), tmp_path / "out")
    machine_of(folder, tmp_path / "idle")
    assert judge(folder, tmp_path / "idle")["reward"] == 0.0
    machine_of(folder, tmp_path / "gold")
    solve(folder, tmp_path / "gold")
    assert judge(folder, tmp_path / "gold")["reward"] == 1.0


@pytest.mark.real
@each_row("name", ["sql", "fix"])
def test_an_answer_is_judged_as_the_environment_does(tmp_path: Path, name: str):
    """Right, half right, wrong or no answer; code that ends its process or keeps state."""
    if name == "sql":
        env: Env = SQLEnv(engine="sqlite", scheme="outcome")
        task = ordered_task(env)
        gold, place = task.gold["sql"], "answer.txt"
        answers = [gold, f"  -- right\n{gold}", f"SELECT * FROM ({gold}) LIMIT 1", "SELECT 1", "SELECT nothing("]
    else:
        env, task, place = CodeEnv(scheme="outcome"), code_task("fix"), "solution.py"
        function, head = task.data["entry_point"], task.data["signature"].rstrip()
        again = f"\n_real, _calls = {function}, []\ndef {function}(*all):\n    _calls.append(1)\n"
        answers = [task.gold["code"], task.data["code"], f"import os\n{head}\n    os._exit(0)\n"]
        answers += [task.gold["code"] + again + "    return _real(*all) if len(_calls) == 1 else None\n"]
    folder = exported(env, task, tmp_path / "out")
    for number, answer in enumerate(answers):
        (machine_of(folder, tmp_path / str(number)) / place).write_text(answer)
        there = judge(folder, tmp_path / str(number))
        env.reset(options={"task": task})
        here = env.step(assistant("", [ToolCall("submit", {"answer": answer})])).info["rewards"]
        for ours, theirs in (("outcome", "reward"), ("partial", "partial")):
            assert there.get(theirs, 0.0) == here.get(ours, 0.0), answer
    env.close()


def cheat_by_link(app: Path, gold: str) -> None:
    """The link's target is right, but only files in /app count."""
    (app.parent / "elsewhere.txt").write_text(gold)
    (app / "answer.txt").symlink_to(app.parent / "elsewhere.txt")


def cheat_by_another_database(app: Path, gold: str) -> None:
    """The right rows in a table of its own, which only the agent's copy has."""
    with closing(sqlite3.connect(app / "database.sqlite")) as database:
        database.execute(f"CREATE TABLE mine AS {gold}")
        database.commit()
    (app / "answer.txt").write_text("SELECT * FROM mine")


def cheat_by_attaching(app: Path, gold: str) -> None:
    cheat_by_another_database(app, gold)
    (app / "answer.txt").write_text(f"ATTACH '{app / 'database.sqlite'}' AS other; SELECT * FROM other.mine")


def cheat_by_an_early_reward(app: Path, gold: str) -> None:
    logs = app.parent / "logs/verifier"
    logs.mkdir(parents=True)
    (app.parent / "mine.json").write_text('{"reward": 1}')
    (logs / "reward.json").symlink_to(app.parent / "mine.json")
    (logs / "reward.txt").write_text("1")
    (app / "answer.txt").write_text("SELECT 0")


@pytest.mark.real
@each_row("cheat", [cheat_by_link, cheat_by_another_database, cheat_by_attaching, cheat_by_an_early_reward])
def test_cheating_about_a_database_scores_nothing(tmp_path: Path, cheat):
    env = SQLEnv(engine="sqlite")
    task = ordered_task(env)
    folder = exported(env, task, tmp_path / "out")
    cheat(machine_of(folder, tmp_path / "root"), task.gold["sql"])
    assert judge(folder, tmp_path / "root")["reward"] == 0.0


TAKES_THE_REWARD = """\
import os, signal, sys
for place in ("/logs/verifier", os.environ.get("HOME", "")):
    for name in ("reward.json", "reward.txt"):
        try:
            open(os.path.join(place, name), "w").write("1")
        except OSError:
            pass
os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.mark.real
@pytest.mark.skipif(not IS_ROOT, reason="what an agent wrote has no fewer rights than these tests")
def test_a_submission_neither_ends_its_judge_nor_writes_the_reward(tmp_path: Path):
    folder = exported(CodeEnv(), code_task("function"), tmp_path / "out")
    app = machine_of(folder, tmp_path / "root")
    (app / "solution.py").write_text(TAKES_THE_REWARD)
    assert judge(folder, tmp_path / "root")["reward"] == 0.0


@each_row("name", ["function", "fix", "sql", "swe"])
def test_the_agent_finds_no_test_in_its_image_and_no_gold_in_the_instruction(tmp_path: Path, name: str):
    _, task = written(name, tmp_path)
    (tmp_path / "again").mkdir()
    folder = exported(*written(name, tmp_path / "again"), tmp_path / "out")
    inside = {path.name for path in (folder / "environment").iterdir()}
    assert inside - {"Dockerfile"} <= {"solution.py", "database.sqlite", "repository.tar.gz", "pytest.tar.gz"}
    assert "/tests" not in (folder / "environment/Dockerfile").read_text()
    hidden = {"function": "code", "fix": "code", "sql": "sql", "swe": "gold_patch"}
    assert str(task.gold[hidden[name]]) not in (folder / "instruction.md").read_text()


def test_the_command_writes_folders_that_we_read(tmp_path: Path):
    out = tmp_path / "out"
    words = ["tasks", "export-harbor", "sql", "--out", str(out), "-n", "3", "--set", "engine=sqlite"]
    ran = CliRunner().invoke(app, words)
    assert (ran.exit_code, ran.output) == (0, f"Wrote 3 task folders to {out}\n")
    source = FolderTasks(out, split_by="test")
    assert (source.size("test"), source.left_out) == (3, ())
    assert CliRunner().invoke(app, words).exit_code != 0


@pytest.mark.docker
@needs_image
@pytest.mark.parametrize(
    "name", [*KINDS, "sql", pytest.param("swe", marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_exported_and_imported_the_solution_scores_1_and_nothing_0(tmp_path: Path, name: str):
    folder = exported(*written(name, tmp_path), tmp_path / "out")
    env = TerminalEnv(folder=folder, split_by="test")
    try:
        env.reset(options={"index": 0})
        assert list(steps(env, env.solution(env.task)))[-1].reward == 1.0
        env.reset(options={"index": 0})
        assert env.step(assistant("", [ToolCall("submit")])).reward == 0.0
    finally:
        env.close()


ROOT_CHEATS = {
    "another python": "echo '#!/bin/bash' > /usr/bin/python3 && chmod +x /usr/bin/python3 && "
    "echo 'mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt' >> /usr/bin/python3",
    "a program that goes on": "mkdir -p /logs/verifier; "
    """nohup sh -c 'while :; do echo "{\\"reward\\": 1}" > /logs/verifier/reward.json; sleep 0.01; done' &""",
    "tests of its own": "mkdir -p /tests && echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh",
    "a link to the tests": "rm -rf /app/answer.txt && ln -s /tests/task.json /app/answer.txt",
    "a folder that is a link": "cd / && rm -rf /app && ln -s /tests /app",
}


@pytest.mark.docker
@needs_image
@each_row("name", ROOT_CHEATS)
def test_root_on_the_machine_of_the_agent_cannot_change_the_verdict(tmp_path: Path, name: str):
    folder = exported(*written("sql", tmp_path), tmp_path / "out")
    env = TerminalEnv(folder=folder, split_by="test")
    try:
        env.reset(options={"index": 0})
        env.step(assistant("", [ToolCall("bash", {"command": ROOT_CHEATS[name]})]))
        assert env.step(assistant("", [ToolCall("submit")])).reward == 0.0
    finally:
        env.close()
