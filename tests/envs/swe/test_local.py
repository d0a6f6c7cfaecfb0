"""Rows of SWE-bench without Docker: repositories and Python environments that lie on this machine."""

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
from typer.testing import CliRunner

from agentgym.checks.play import assistant_call
from agentgym.cli import app
from agentgym.envs.swe import SWEEnv
from agentgym.envs.swe.source import InstanceTasks
from agentgym.errors import BrokenTask, UsageError
from agentgym.messages import ToolCall, text_of
from agentgym.script import steps
from agentgym.task import Task
from agentgym.task_files.left_out import Why
from agentgym.tasks.swe.instance import PYTHON, from_task, to_task
from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tools.patches import diff_trees
from tests.rows import each_row
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE

# A runner of its own, with bare names as ids, as sympy's is. It needs a package that only its environment has.
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


def pytest_row(**changes: Any) -> dict[str, Any]:
    tested = FILES | {"tests/test_words.py": HIDDEN_TESTS.encode()}
    row = {
        "instance_id": "kit__textkit-1",
        "repo": "kit/textkit",
        "base_commit": "1",
        "patch": INSTANCE.gold_patch,
        "test_patch": diff_trees(FILES, tested),
        "problem_statement": INSTANCE.prompt,
        "version": "1.0",
        "FAIL_TO_PASS": json.dumps(INSTANCE.fail_to_pass),
        "PASS_TO_PASS": json.dumps([*INSTANCE.pass_to_pass, "tests/test_words.py::test_that_only_their_machine_has"]),
    }
    return row | changes


def sympy_row(**changes: Any) -> dict[str, Any]:
    tested = SYMPY | {"sums/tests/test_sums.py": SYMPY_TESTED}
    row = {
        "instance_id": "sympy__sympy-1",
        "repo": "sympy/sympy",
        "base_commit": "1",
        "patch": diff_trees(SYMPY, SYMPY_MENDED),
        "test_patch": diff_trees(SYMPY, tested),
        "problem_statement": "Sums are wrong.",
        "version": "1.7",
        "FAIL_TO_PASS": '["test_add"]',
        "PASS_TO_PASS": '["test_zero"]',
    }
    return row | changes


def rows(folder: Path, *entries: dict[str, Any]) -> Path:
    file = folder / "test.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return file


def written(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def committed(folder: Path, files: dict[str, bytes]) -> str:
    """Make a repository whose first commit holds the files, and whose work tree is something else; return that."""
    written(folder, files)
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
    written(folder / "kit__textkit-1", FILES)
    written(folder / "sympy__sympy-1", SYMPY)
    return folder


def environment(file: Path, **kwargs: Any) -> SWEEnv:
    return SWEEnv(file=file, solution_style="short", **kwargs)


def solved(env: SWEEnv, task: Task, *moves: ToolCall | str) -> dict[str, Any]:
    env.reset(seed=0, options={"task": task})
    *_, last = steps(env, moves or env.solution(task))
    return last.info


SUBMIT = ToolCall("submit")


@pytest.mark.real
@each_row("make", [pytest_row, sympy_row])
def test_a_row_is_played_and_graded_in_its_own_environment(
    tmp_path: Path, repositories: Path, environments: Path, make: Callable[..., dict[str, Any]]
):
    env = environment(rows(tmp_path, make()), repositories=repositories, environments=environments)
    task = env.tasks.get("test", 0)
    info = solved(env, task)
    assert (info["is_success"], info["tests_in"]) == (True, "log")
    wrong = ToolCall("create", {"path": "notes.py", "content": "x = 1\n"})
    assert not solved(env, task, wrong, SUBMIT)["is_success"]
    env.close()


@pytest.mark.real
def test_the_agent_works_with_the_packages_of_the_environment(tmp_path: Path, repositories: Path, environments: Path):
    env = environment(rows(tmp_path, pytest_row()), repositories=repositories, environments=environments)
    env.reset(seed=0, options={"task": env.tasks.get("test", 0)})
    run = ToolCall("run", {"command": "python -c 'import only_there, textkit, pytest; print(pytest.__file__)'"})
    observation = env.step(assistant_call(run)).observation
    assert f"{environments.name}/kit__textkit-1.0/lib" in text_of(observation[-1])
    tests = env.step(assistant_call(ToolCall("run_tests", {"paths": ["tests"]}))).observation
    assert "6 passed" in text_of(tests[-1])
    env.close()


@pytest.mark.real
def test_tests_that_only_passed_elsewhere_are_not_asked_for(tmp_path: Path, repositories: Path, environments: Path):
    """The row of `pytest_row` names one; what keeps it from being solved would keep everybody's work from it."""
    env = environment(rows(tmp_path, pytest_row()), repositories=repositories, environments=environments)
    task = env.tasks.get("test", 0)
    broken = FILES["textkit/words.py"].decode().replace('text.split(" ")', "text.split()").replace("key=len", "key=str")
    edit = ToolCall("edit", {"path": "textkit/words.py", "old": FILES["textkit/words.py"].decode(), "new": broken})
    assert not solved(env, task, edit, SUBMIT)["is_success"]  # a test that passes here must go on passing
    assert solved(env, task)["is_success"]
    env.close()


@pytest.mark.real
def test_a_gold_that_fails_in_the_environment_breaks_its_task_with_the_reason(
    tmp_path: Path, repositories: Path, environments: Path
):
    row = sympy_row(FAIL_TO_PASS='["test_add", "test_of_nowhere"]')
    env = environment(rows(tmp_path, row), repositories=repositories, environments=environments)
    with pytest.raises(BrokenTask, match=r"do not pass on its gold patch in .*: test_of_nowhere is not in the log"):
        solved(env, env.tasks.get("test", 0))
    lacking = tmp_path / "lacking"
    venv.create(lacking, symlinks=True)
    env = environment(tmp_path / "test.jsonl", repositories=repositories, environments=lacking)
    with pytest.raises(BrokenTask, match="No module named 'only_there'"):
        solved(env, env.tasks.get("test", 0))


@pytest.mark.real
def test_an_evaluation_of_which_nothing_can_be_graded_fails_and_says_why(
    tmp_path: Path, repositories: Path, environments: Path
):
    file = rows(tmp_path, sympy_row(FAIL_TO_PASS='["test_of_nowhere"]'))
    settings = [f"file={file}", f"repositories={repositories}", f"environments={environments}", "solution_style=short"]
    words = ["eval", "--env", "swe", *(word for setting in settings for word in ("--set", setting))]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    assert result.exit_code == 1
    assert "sympy__sympy-1: BrokenTask: the tests of 'sympy__sympy-1' do not pass on its gold patch" in result.stdout


# Where repositories are.


def archived(folder: Path, name: str, top: str) -> None:
    written(folder / "unpacked", FILES)
    with tarfile.open(folder / name, "w:gz") as archive:
        archive.add(folder / "unpacked", arcname=top)
    shutil.rmtree(folder / "unpacked")


@each_row("name", ["kit__textkit-1.tar.gz", "textkit-1.tar.gz", "kit__textkit-1.tgz"])
def test_archives_are_found_by_id_or_as_they_are_downloaded(tmp_path: Path, name: str):
    folder = tmp_path / "repositories"
    archived(folder, name, "textkit-1")
    source = InstanceTasks(rows(tmp_path, pytest_row()), repositories=folder)
    assert source.tree(source.get("test", 0)) == FILES


@pytest.mark.real
@each_row("name", ["kit__textkit", "kit/textkit", "textkit", "textkit.git", "kit__textkit-1"])
def test_of_a_git_repository_the_commit_is_read_whatever_is_checked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "repositories" / name
    commit = committed(tmp_path / "work", FILES)
    folder.parent.mkdir(parents=True)
    git(
        tmp_path,
        "clone",
        "--quiet",
        *(["--bare"] if name.endswith(".git") else []),
        str(tmp_path / "work"),
        str(folder),
    )
    source = InstanceTasks(rows(tmp_path, pytest_row(base_commit=commit)), repositories=tmp_path / "repositories")
    for _ in range(2):  # from the repository, then from the cache
        assert source.tree(source.get("test", 0)) == FILES


@pytest.mark.real
def test_rows_without_files_are_left_out_with_the_paths_that_were_tried(
    tmp_path: Path, repositories: Path, environments: Path
):
    committed(repositories / "sympy__sympy", SYMPY)
    shutil.rmtree(repositories / "sympy__sympy-1")
    other = pytest_row(instance_id="kit__other-1", repo="kit/other")
    file = rows(tmp_path, pytest_row(), other, sympy_row(base_commit="0" * 40))
    source = InstanceTasks(file, repositories=repositories, environments=environments)
    assert (source.size("test"), [entry.where for entry in source.left_out]) == (1, [f"{file}:2", f"{file}:3"])
    absent, commit = (entry.reason for entry in source.left_out)
    assert (
        "neither kit__other-1.tar.gz, a folder kit__other-1, other-1.tar.gz, nor a Git repository kit__other" in absent
    )
    assert commit.endswith(f"has no commit {'0' * 40}; fetch it")
    with pytest.raises(UsageError, match=r"test\.jsonl:2: its repository is not in"):
        InstanceTasks(file, repositories=repositories, environments=environments, strict=True)
    with pytest.raises(UsageError, match=r"environment is not in .*: none of kit__textkit-1, .* has bin/python"):
        InstanceTasks(rows(tmp_path, pytest_row()), repositories=repositories, environments=tmp_path)


@pytest.mark.real
def test_without_an_environment_tests_of_pytest_are_run_by_ours_and_others_refused(tmp_path: Path, repositories: Path):
    env = environment(rows(tmp_path, pytest_row(PASS_TO_PASS="[]"), sympy_row()), repositories=repositories)
    assert isinstance(env.tasks, InstanceTasks)
    (entry,) = env.tasks.left_out
    assert "its tests are not pytest ids ('test_add')" in entry.reason
    info = solved(env, env.tasks.get("test", 0))
    assert info["is_success"]
    assert info["tests_in"] != "log"
    env.close()


@pytest.mark.real
def test_the_archive_of_a_row_is_taken_or_refused(tmp_path: Path):
    archived(tmp_path, "kit.tar.gz", "top")
    not_there = "its archive .*none.tar.gz' does not exist"
    for wrong, said in ((3, "'archive' must be the path"), ("none.tar.gz", not_there)):
        with pytest.raises(UsageError, match=said):
            InstanceTasks(rows(tmp_path, pytest_row(archive=wrong)))
    source = InstanceTasks(rows(tmp_path, pytest_row(archive="kit.tar.gz", PASS_TO_PASS="[]")))
    task = source.get("test", 0)
    assert (source.tree(task), task.data["image"]) == (FILES, None)
    env = SWEEnv(tasks=source, solution_style="short")
    assert solved(env, task)["is_success"]
    env.close()
    named = InstanceTasks(rows(tmp_path, pytest_row(archive="kit.tar.gz", image_name="mine:1")))
    assert named.get("test", 0).data["image"] == "mine:1"


@each_row("place", ["/etc", "../secret", "kit/../../secret"])
def test_a_row_chooses_no_file_outside_of_the_folders_that_the_user_names(tmp_path: Path, place: str):
    written(tmp_path / "secret", {"key": b"secret", "bin/python": b""})
    data = tmp_path / "data"
    written(data / "kit", FILES)
    file = rows(data, pytest_row(archive=place))
    with pytest.raises(UsageError, match=r"its archive .* is not in the folder of its file"):
        InstanceTasks(file)
    for changes in ({"instance_id": place}, {"repo": place}, {"version": place}):
        file = rows(data, pytest_row(**changes))
        with pytest.raises(UsageError, match="cannot be the name of a file"):
            InstanceTasks(file, repositories=data / "kit")


@pytest.mark.real
def test_a_row_gives_git_no_options(tmp_path: Path):
    committed(tmp_path / "repositories" / "kit__textkit", FILES)
    file = rows(tmp_path, pytest_row(base_commit="--exec=touch x"))
    with pytest.raises(UsageError, match="its commit '--exec=touch x' cannot be"):
        InstanceTasks(file, repositories=tmp_path / "repositories")


def test_a_file_never_chooses_the_python_environment_of_a_sandbox(tmp_path: Path):
    archived(tmp_path, "kit.tar.gz", "top")
    own = from_task(InstanceTasks(rows(tmp_path, pytest_row(archive="kit.tar.gz"))).get("test", 0))
    named = {**own.meta, PYTHON: "/root"}
    row = {**own.to_dict(), "archive": "kit.tar.gz", "meta": named}
    source = InstanceTasks(rows(tmp_path, row))
    assert from_task(source.get("test", 0)).python is None
    forged = to_task(replace(from_task(source.get("test", 0)), meta=named), "test")
    env = SWEEnv(tasks=source)
    env.reset(options={"task": forged})
    with pytest.raises(UsageError, match="names the Python environment '/root', which is not that of the task source"):
        env.step(assistant_call(ToolCall("submit")))
    env.close()


def test_environments_without_repositories_are_refused(tmp_path: Path, environments: Path):
    with pytest.raises(UsageError, match=r"environments=\.\.\. needs repositories=\.\.\. too, or archives"):
        InstanceTasks(rows(tmp_path, pytest_row()), environments=environments)


# What rows are worth nothing.


@each_row(
    "changes, said",
    [
        ({"FAIL_TO_PASS": "[]"}, "no test says whether it is solved"),
        ({"FAIL_TO_PASS": None}, "no test says whether it is solved"),
        ({"FAIL_TO_PASS": "[oops"}, "'FAIL_TO_PASS' is a string but not JSON"),
        ({"patch": "nonsense"}, "its gold patch"),
        ({"patch": INSTANCE.gold_patch[:-20]}, "its gold patch cannot be read"),
        ({"test_patch": "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n x"}, "its test patch cannot be read"),
        ({"patch": None}, "no text under 'patch'"),
        ({"problem_statement": ""}, "no text under 'problem_statement'"),
        ({"problem_statement": "\ud800"}, "its text holds half of a character"),
    ],
)
def test_a_row_that_makes_no_task_is_left_out_and_named(tmp_path: Path, changes: dict[str, Any], said: str):
    file = rows(tmp_path, sympy_row(), pytest_row(**changes))
    source = InstanceTasks(file)
    assert source.size("test") == 1
    (entry,) = source.left_out
    assert (entry.where, entry.why) == (f"{file}:2", Why.BROKEN)
    assert said in entry.reason
    assert "\n" not in entry.reason
    with pytest.raises(UsageError, match=r"test\.jsonl:2: "):
        InstanceTasks(file, strict=True)


def test_rows_are_in_the_split_that_they_or_their_file_name(tmp_path: Path):
    lines = json.dumps(sympy_row()) + "\n" + json.dumps(sympy_row()) + "\n"
    for name, split in (("dev-00000.jsonl", "validation"), ("test.jsonl", "test"), ("rows.jsonl", "train")):
        (tmp_path / name).write_text(lines)
        source = InstanceTasks(tmp_path / name)
        assert (source.splits, [entry.why for entry in source.left_out]) == ((split,), [Why.REPEATED])
    assert InstanceTasks(tmp_path / "test.jsonl", split_by="train").splits == ("train",)
    assert InstanceTasks(tmp_path).splits == ("validation",)  # one row, six times
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match=r"empty\.jsonl: the file holds no entry"):
        InstanceTasks(tmp_path)
