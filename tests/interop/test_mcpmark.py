"""MCPMark's filesystem tasks: their folders are read, their scripts judge, and nothing outside is touched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.engine.steps import StepResult
from agentgym.envs.mcpmark import MCPMarkEnv
from agentgym.errors import InfrastructureError, UsageError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.tasks.mcpmark import MCPMarkTasks
from agentgym.tools.sandbox.registry import automatic

VERIFY = """
import os, sys
from pathlib import Path

test_dir = os.environ.get("FILESYSTEM_TEST_DIR")
if not test_dir:
    raise ValueError("FILESYSTEM_TEST_DIR environment variable is required")
made = Path(test_dir) / "upper" / "note.txt"
if not made.exists() or made.read_text() != (Path(test_dir) / "note.txt").read_text().upper():
    print("no")
    sys.exit(1)
if int((Path(test_dir) / "note.txt").stat().st_mtime) != 1_000_000_000:
    sys.exit(1)
print("yes")
sys.exit(0)
"""


def write_task(root: Path, name: str = "uppercase", *, verify: str = VERIFY, **meta: Any) -> Path:
    folder = root / "tasks/easy/file_context" / name
    folder.mkdir(parents=True)
    fields = {
        "task_id": name,
        "category_id": "file_context",
        "difficulty": "L1",
        "tags": ["text"],
        "mcp": ["filesystem"],
    }
    (folder / "meta.json").write_text(json.dumps(fields | meta))
    (folder / "description.md").write_text(f"# {name}\n\nWrite note.txt in upper case to upper/note.txt.\n")
    (folder / "verify.py").write_text(verify)
    return root / "tasks"


@pytest.fixture
def environments(tmp_path: Path) -> Path:
    folder = tmp_path / "environments/file_context"
    folder.mkdir(parents=True)
    (folder / "note.txt").write_text("hello\nthere\n")
    os.utime(folder / "note.txt", (1_000_000_000, 1_000_000_000))
    return tmp_path / "environments"


@pytest.fixture
def env(tmp_path: Path, environments: Path) -> Iterator[MCPMarkEnv]:
    if automatic() is None:
        pytest.skip("no backend of the sandbox works here")
    made = MCPMarkEnv(folder=write_task(tmp_path), environments=environments, split_by="test")
    made.reset(options={"index": 0})
    yield made
    made.close()


def do(env: MCPMarkEnv, name: str, /, **arguments: Any) -> str:
    return text_of(env.step(assistant("", [ToolCall(name, arguments)])).observation[0])


def done(env: MCPMarkEnv) -> StepResult:
    return env.step(assistant("Done."))


def test_right_work_is_worth_1_and_none_0(env: MCPMarkEnv):
    assert do(env, "read_text_file", path="note.txt") == "hello\nthere\n"
    do(env, "create_directory", path="upper")
    do(env, "write_file", path="upper/note.txt", content="HELLO\nTHERE\n")
    ended = done(env)
    assert (ended.reward, ended.info["ending"]) == (1.0, "solved")
    env.reset(options={"index": 0})
    idle = done(env)
    assert (idle.reward, idle.info["ending"]) == (0.0, "answered")


def test_files_are_listed_found_edited_and_moved(env: MCPMarkEnv):
    assert do(env, "list_directory") == "[FILE] note.txt"
    do(env, "create_directory", path="a/b")
    assert do(env, "move_file", source="note.txt", destination="a/b/moved.txt") == "Moved note.txt to a/b/moved.txt."
    assert do(env, "edit_file", path="a/b/moved.txt", old="hello", new="bye") == "Changed a/b/moved.txt."
    assert do(env, "directory_tree") == "a/\na/b/\na/b/moved.txt"
    assert do(env, "search_files", pattern="*.txt") == "a/b/moved.txt"
    assert do(env, "read_text_file", path="a/b/moved.txt", head=1) == "bye\n"
    assert "size: 10" in do(env, "get_file_info", path="a/b/moved.txt")


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret", "link/secret"])
def test_nothing_outside_of_the_folder_is_read_or_written(env: MCPMarkEnv, environments: Path, path: str):
    (environments / "file_context/link").symlink_to("/etc")
    env.reset(options={"index": 0})
    for name, arguments in (
        ("read_text_file", {"path": path}),
        ("write_file", {"path": path, "content": "x"}),
        ("move_file", {"source": "note.txt", "destination": path}),
        ("create_directory", {"path": path}),
    ):
        assert do(env, name, **arguments).startswith("Error: "), name


def test_episodes_do_not_share_files_and_leave_none(env: MCPMarkEnv, environments: Path):
    do(env, "write_file", path="mine.txt", content="x")
    root = env._root  # pyright: ignore[reportPrivateUsage]
    env.reset(options={"index": 0})
    assert "mine.txt" not in do(env, "list_directory")
    assert not root.exists()
    env.close()
    assert sorted(path.name for path in (environments / "file_context").iterdir()) == ["note.txt"]


def test_a_script_that_does_not_end_is_an_infrastructure_error(tmp_path: Path, environments: Path):
    if automatic() is None:
        pytest.skip("no backend of the sandbox works here")
    folder = write_task(tmp_path, verify="import os\nos.kill(os.getpid(), 9)\n")
    env = MCPMarkEnv(folder=folder, environments=environments, split_by="test")
    env.reset(options={"index": 0})
    with pytest.raises(InfrastructureError, match="did not end"):
        done(env)
    env.close()


DIES_OF_THE_FILE = """
import os
from pathlib import Path

if (Path(os.environ["FILESYSTEM_TEST_DIR"]) / "poison").exists():
    os.kill(os.getpid(), 9)
raise SystemExit(1)
"""


def test_files_that_end_the_script_are_worth_0_and_no_infrastructure_error(tmp_path: Path, environments: Path):
    if automatic() is None:
        pytest.skip("no backend of the sandbox works here")
    folder = write_task(tmp_path, verify=DIES_OF_THE_FILE)
    env = MCPMarkEnv(folder=folder, environments=environments, split_by="test")
    env.reset(options={"index": 0})
    do(env, "write_file", path="poison", content="x")
    ended = done(env)
    assert (ended.reward, ended.info["ending"]) == (0.0, "answered")
    env.close()


def test_modules_in_the_folder_are_not_those_of_the_script(env: MCPMarkEnv):
    for name in ("sitecustomize", "usercustomize", "conftest", "os", "pathlib", "json", "sys"):
        do(env, "write_file", path=f"{name}.py", content="raise SystemExit(0)\n")
        do(env, "create_directory", path=name)
        do(env, "write_file", path=f"{name}/__init__.py", content="raise SystemExit(0)\n")
    do(env, "write_file", path="verdict", content="yes\n")
    assert done(env).reward == 0.0


@pytest.mark.parametrize(
    "path", ["n" * 300, "a/" * 2_000, "p" * 5_000, "ü" * 200, "\0", "\ud800", "..", "note.txt/x", "", "-rf", "a\nb"]
)
def test_any_path_is_at_most_the_models_mistake(env: MCPMarkEnv, path: str):
    for name, arguments in (
        ("create_directory", {"path": path}),
        ("list_directory", {"path": path}),
        ("directory_tree", {"path": path}),
        ("search_files", {"path": path, "pattern": "["}),
        ("read_text_file", {"path": path, "head": -1}),
        ("get_file_info", {"path": path}),
        ("write_file", {"path": path, "content": "x"}),
        ("edit_file", {"path": path, "old": "x", "new": "y"}),
        ("move_file", {"source": path, "destination": "there"}),
        ("move_file", {"source": "note.txt", "destination": path}),
    ):
        env.reset(options={"index": 0})
        assert isinstance(do(env, name, **arguments), str), name
        assert env.reason is None


def test_folders_are_not_moved_deeper_than_the_system_can_follow(env: MCPMarkEnv):
    do(env, "create_directory", path="a/" * 400)
    do(env, "create_directory", path="b/" * 400)
    assert "too long" in do(env, "move_file", source="a", destination="b/" * 400 + "a")
    assert do(env, "directory_tree").count("/") > 400


def test_broken_and_foreign_tasks_are_left_out_with_the_reason(tmp_path: Path, environments: Path):
    write_task(tmp_path)
    write_task(tmp_path, "queries", mcp=["postgres"])
    write_task(tmp_path, "elsewhere", category_id="papers")
    write_task(tmp_path, "escaping", category_id="../environments/file_context")
    (write_task(tmp_path, "wordless") / "easy/file_context/wordless/description.md").write_text("")
    source = MCPMarkTasks(tmp_path / "tasks", environments=environments, split_by="test")
    assert [task.id for task in (source.get("test", n) for n in range(source.size("test")))] == [
        "mcpmark/easy/file_context/uppercase"
    ]
    told = " ".join(one.reason for one in source.left_out)
    for part in ("only filesystem is supported", "papers", "description.md is empty"):
        assert part in told
    assert len(source.left_out) == 4


def test_what_is_missing_is_said():
    with pytest.raises(UsageError, match="pass folder="):
        MCPMarkEnv()
    with pytest.raises(UsageError, match="needs environments="):
        MCPMarkEnv(folder=".")
