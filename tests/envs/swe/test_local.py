"""Rows of SWE-bench without Docker: repositories and Python environments on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.check.play import assistant_call
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.policy import steps
from agentgym.core.task import Task
from agentgym.core.task_files import Why
from agentgym.envs.swe import SWEEnv
from agentgym.envs.swe.source import InstanceTasks
from agentgym.tasks.swe.instance import PYTHON, from_task, to_task
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tools.patches import diff_trees
from tests.rows import each_row
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE, MENDED

# A test runner that prints bare names as ids, like sympy's. It needs a package that only its environment has.
RUNNER = """\
#!/usr/bin/env python
import sys, traceback
import only_there
sys.path.insert(0, ".")
for path in [argument for argument in sys.argv[1:] if not argument.startswith("-")]:
    names = {}
    exec(compile(open(path).read(), path, "exec"), names)
    print(f"{path}[{len(names)}]")
    for name in [name for name in names if name.startswith("test_")]:
        try:
            names[name]()
            print(f"{name} ok")
        except Exception:
            print(f"{name} F")
"""
SYMPY = {
    "bin/test": RUNNER.encode(),
    "sums/__init__.py": b"def add(a, b):\n    return a - b\n",
    "sums/tests/test_sums.py": b"from sums import add\n\ndef test_zero():\n    assert add(2, 0) == 2\n",
}
SYMPY_MENDED = SYMPY | {"sums/__init__.py": b"def add(a, b):\n    return a + b\n"}
SYMPY_TESTED = SYMPY["sums/tests/test_sums.py"] + b"\ndef test_add():\n    assert add(2, 3) == 5\n"


def row_of(repo: str, files: dict[str, bytes], mended: dict[str, bytes], tests: dict[str, bytes]) -> dict[str, Any]:
    return {
        "instance_id": f"{repo.replace('/', '__')}-1",
        "repo": repo,
        "base_commit": "1",
        "patch": diff_trees(files, mended),
        "test_patch": diff_trees(files, files | tests),
        "problem_statement": INSTANCE.prompt,
    }


def pytest_row(**changes: Any) -> dict[str, Any]:
    row = row_of("kit/textkit", FILES, MENDED, {"tests/test_words.py": HIDDEN_TESTS.encode()})
    passing = [*INSTANCE.pass_to_pass, "tests/test_words.py::test_that_only_their_machine_has"]
    tests = {"FAIL_TO_PASS": json.dumps(INSTANCE.fail_to_pass), "PASS_TO_PASS": json.dumps(passing)}
    return row | tests | {"version": "1.0"} | changes


def sympy_row(**changes: Any) -> dict[str, Any]:
    row = row_of("sympy/sympy", SYMPY, SYMPY_MENDED, {"sums/tests/test_sums.py": SYMPY_TESTED})
    return row | {"FAIL_TO_PASS": '["test_add"]', "PASS_TO_PASS": '["test_zero"]', "version": "1.7"} | changes


def write_rows(folder: Path, *entries: dict[str, Any]) -> Path:
    file = folder / "test.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return file


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit_files(folder: Path, files: dict[str, bytes]) -> str:
    """Create a repository whose work tree is ahead of the commit with the files; return that commit."""
    write_files(folder, files)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "later.txt").write_text("later")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "second")
    return commit


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Environments with their own pytest, and with a package that is not installed here."""
    folder = tmp_path_factory.mktemp("environments")
    for name in ("kit__textkit-1.0", "sympy__sympy"):
        venv.create(folder / name, symlinks=True)
        packages = folder / name / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        shutil.copytree(pytest_folder(), packages, dirs_exist_ok=True)
        (packages / "only_there.py").write_text("")
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o555 if path.is_dir() else path.stat().st_mode | 0o444)
    for parent in [folder, *folder.parents][:3]:
        parent.chmod(0o755)
    return folder


@pytest.fixture
def repositories(tmp_path: Path) -> Path:
    folder = tmp_path / "repositories"
    write_files(folder / "kit__textkit-1", FILES)
    write_files(folder / "sympy__sympy-1", SYMPY)
    return folder


def environment(file: Path, **kwargs: Any) -> SWEEnv:
    return SWEEnv(file=file, solution_style="short", **kwargs)


def submitted(env: SWEEnv, task: Task, *moves: ToolCall | str) -> dict[str, Any]:
    env.reset(seed=0, options={"task": task})
    *_, last = steps(env, moves or env.solution(task))
    return last.info


@pytest.mark.real
@each_row("make", [pytest_row, sympy_row])
def test_row_is_played_and_graded_in_its_own_environment(
    tmp_path: Path, repositories: Path, environments: Path, make: Callable[..., dict[str, Any]]
):
    env = environment(write_rows(tmp_path, make()), repositories=repositories, environments=environments)
    task = env.tasks.get("test", 0)
    info = submitted(env, task)
    assert (info["is_success"], info["tests_in"]) == (True, "log")
    wrong = ToolCall("create", {"path": "notes.py", "content": "x = 1\n"})
    assert not submitted(env, task, wrong, ToolCall("submit"))["is_success"]
    if make is pytest_row:
        env.reset(seed=0, options={"task": task})
        run = ToolCall("run", {"command": "python -c 'import only_there, textkit, pytest; print(pytest.__file__)'"})
        output = text_of(env.step(assistant_call(run)).observation[-1])
        assert f"{environments.name}/kit__textkit-1.0/lib" in output
    env.close()


def write_archive(folder: Path, name: str) -> None:
    write_files(folder / "unpacked", FILES)
    with tarfile.open(folder / name, "w:gz") as archive:
        archive.add(folder / "unpacked", arcname="top")
    shutil.rmtree(folder / "unpacked")


def test_archives_are_found_by_download_name(tmp_path: Path):
    folder = tmp_path / "repositories"
    write_archive(folder, "textkit-1.tar.gz")
    source = InstanceTasks(write_rows(tmp_path, pytest_row()), repositories=folder)
    assert source.tree(source.get("test", 0)) == FILES


@pytest.mark.real
@each_row("name", ["kit/textkit", "textkit.git"])
def test_files_come_from_the_commit_and_not_from_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "repositories" / name
    commit = commit_files(tmp_path / "work", FILES)
    folder.parent.mkdir(parents=True)
    bare = ["--bare"] if name.endswith(".git") else []
    git(tmp_path, "clone", "--quiet", *bare, str(tmp_path / "work"), str(folder))
    source = InstanceTasks(write_rows(tmp_path, pytest_row(base_commit=commit)), repositories=tmp_path / "repositories")
    for _ in range(2):  # from the repository, then from the cache
        assert source.tree(source.get("test", 0)) == FILES


@pytest.mark.real
def test_rows_without_files_are_left_out_with_the_searched_paths(
    tmp_path: Path, repositories: Path, environments: Path
):
    commit_files(repositories / "sympy__sympy", SYMPY)
    shutil.rmtree(repositories / "sympy__sympy-1")
    other = pytest_row(instance_id="kit__other-1", repo="kit/other")
    file = write_rows(tmp_path, pytest_row(), other, sympy_row(base_commit="0" * 40))
    source = InstanceTasks(file, repositories=repositories, environments=environments)
    assert (source.size("test"), [entry.where for entry in source.left_out]) == (1, [f"{file}:2", f"{file}:3"])
    absent, commit = (entry.reason for entry in source.left_out)
    assert "neither kit__other-1.tar.gz, a folder kit__other-1, other-1.tar.gz, nor a Git repository" in absent
    assert commit.endswith(f"has no commit {'0' * 40}; fetch it")
    with pytest.raises(UsageError, match=r"environment is not in .*: none of kit__textkit-1, .* has bin/python"):
        InstanceTasks(write_rows(tmp_path, pytest_row()), repositories=repositories, environments=tmp_path)


@pytest.mark.real
def test_rows_without_an_environment_need_pytest_ids(tmp_path: Path, repositories: Path):
    env = environment(write_rows(tmp_path, pytest_row(PASS_TO_PASS="[]"), sympy_row()), repositories=repositories)
    assert isinstance(env.tasks, InstanceTasks)
    (entry,) = env.tasks.left_out
    assert "its tests are not pytest ids ('test_add')" in entry.reason
    info = submitted(env, env.tasks.get("test", 0))
    assert info["is_success"]
    assert info["tests_in"] != "log"
    env.close()


@pytest.mark.real
def test_row_can_name_an_archive(tmp_path: Path):
    write_archive(tmp_path, "kit.tar.gz")
    with pytest.raises(UsageError, match=r"its archive .*none.tar.gz' does not exist"):
        InstanceTasks(write_rows(tmp_path, pytest_row(archive="none.tar.gz")))
    source = InstanceTasks(write_rows(tmp_path, pytest_row(archive="kit.tar.gz", PASS_TO_PASS="[]")))
    task = source.get("test", 0)
    assert (source.tree(task), task.data["image"]) == (FILES, None)
    env = SWEEnv(tasks=source, solution_style="short")
    assert submitted(env, task)["is_success"]
    env.close()


@each_row("place", ["/etc", "../secret", "kit/../../secret"])
def test_row_cannot_name_files_outside_of_the_users_folders(tmp_path: Path, place: str):
    write_files(tmp_path / "secret", {"key": b"secret", "bin/python": b""})
    data = tmp_path / "data"
    write_files(data / "kit", FILES)
    file = write_rows(data, pytest_row(archive=place))
    with pytest.raises(UsageError, match=r"its archive .* is not in the folder of its file"):
        InstanceTasks(file)
    for changes in ({"instance_id": place}, {"repo": place}, {"version": place}, {"base_commit": "--exec=touch x"}):
        file = write_rows(data, pytest_row(**changes))
        with pytest.raises(UsageError, match="cannot be the name of a file"):
            InstanceTasks(file, repositories=data / "kit")
    with pytest.raises(UsageError, match=r"environments=\.\.\. needs repositories=\.\.\. too, or archives"):
        InstanceTasks(write_rows(data, pytest_row()), environments=data)


def test_file_cannot_choose_the_python_environment_of_a_sandbox(tmp_path: Path):
    write_archive(tmp_path, "kit.tar.gz")
    own = from_task(InstanceTasks(write_rows(tmp_path, pytest_row(archive="kit.tar.gz"))).get("test", 0))
    named = {**own.meta, PYTHON: "/root"}
    row = {**own.to_dict(), "archive": "kit.tar.gz", "meta": named}
    source = InstanceTasks(write_rows(tmp_path, row))
    assert from_task(source.get("test", 0)).python is None
    forged = to_task(replace(from_task(source.get("test", 0)), meta=named), "test")
    env = SWEEnv(tasks=source)
    env.reset(options={"task": forged})
    with pytest.raises(UsageError, match="names the Python environment '/root', which is not that of the task source"):
        env.step(assistant_call(ToolCall("submit")))
    env.close()


@each_row(
    "changes, reason",
    [
        ({"FAIL_TO_PASS": "[]"}, "no test says whether it is solved"),
        ({"patch": INSTANCE.gold_patch[:-20]}, "its gold patch cannot be read"),
        ({"test_patch": "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n x"}, "its test patch cannot be read"),
        ({"problem_statement": "\ud800"}, "its text holds half of a character"),
    ],
)
def test_row_without_a_usable_task_is_left_out_with_the_reason(tmp_path: Path, changes: dict[str, Any], reason: str):
    file = write_rows(tmp_path, sympy_row(), pytest_row(**changes))
    source = InstanceTasks(file)
    (entry,) = source.left_out
    assert (source.size("test"), entry.where, entry.why) == (1, f"{file}:2", Why.BROKEN)
    assert reason in entry.reason
    with pytest.raises(UsageError, match=r"test\.jsonl:2: "):
        InstanceTasks(file, strict=True)


def test_split_comes_from_the_file_name_or_the_option(tmp_path: Path):
    for name, split in (("dev-00000.jsonl", "validation"), ("test.jsonl", "test"), ("rows.jsonl", "train")):
        source = InstanceTasks(write_rows(tmp_path, sympy_row(), sympy_row()).rename(tmp_path / name))
        assert (source.splits, [entry.why for entry in source.left_out]) == ((split,), [Why.REPEATED])
    assert InstanceTasks(tmp_path / "dev-00000.jsonl", split_by="train").splits == ("train",)
