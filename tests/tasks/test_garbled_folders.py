"""Folders of tasks from others: a broken one is left out with a line that says what and where; the others stay."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("docker", reason="needs the [docker] extra")

from agentgym.task import TaskList
from agentgym.task_files.left_out import LeftOut
from agentgym.tasks.folders import FolderTasks
from tests.task_folders import harbor_task, terminal_bench_task

VALUES: Sequence[Any] = (
    True, 0, -1, 5, 1.5, float("nan"), float("inf"), "", "x", "../x", "..", "a\nb", "\0", "y" * 5_000, 10**18, [], [5],
    [[]], ["a", 1], {}, {"a": 5}, {"a": {}},
)  # fmt: skip
HARBOR = (
    "task", "task.name", "metadata", "metadata.difficulty", "metadata.tags", "environment", "environment.env",
    "environment.env.A", "environment.docker_image", "environment.build_timeout_sec", "environment.workdir",
    "environment.cpus", "environment.memory", "environment.memory_mb", "environment.network_mode",
    "environment.allow_internet", "environment.healthcheck", "environment.healthcheck.command",
    "environment.healthcheck.retries", "environment.os", "environment.gpus", "agent", "agent.timeout_sec", "agent.user",
    "agent.network_mode", "verifier", "verifier.timeout_sec", "verifier.env", "verifier.user", "verifier.environment",
    "verifier.environment_mode", "artifacts", "solution", "solution.env", "steps",
)  # fmt: skip
TERMINAL_BENCH = ("instruction", "difficulty", "tags", "max_agent_timeout_sec", "max_test_timeout_sec", "parser_name")
CONTAINER = ("build", "image", "container_name", "command", "environment", "volumes", "working_dir", "other", 5, None)
TEXTS = (b"", b"\xff\xfe", b"\0", b"[" * 3_000, b"a=" + b"[" * 3_000, b"a=" + b"9" * 5_000, b"a: " + b"[" * 2_000,
         b"a: &a [*a]", b"!!python/object/apply:os.abort []", b"{", b"- 1", b"\t")  # fmt: skip


class Tried:
    """A good task beside one that changes."""

    def __init__(self, root: Path, write: Callable[[Path], object], load: Callable[[Path], TaskList], good: str):
        self.root, self._write, self._load, self._good = root, write, load, good

    def bad(self) -> Path:
        """Write both anew, and return the folder to change."""
        shutil.rmtree(self.root, ignore_errors=True)
        self._write(self.root / "good")
        self._write(self.root / "bad")
        return self.root / "bad"

    def left_out(self, what: object) -> list[LeftOut]:
        """Load both; the good one must be there, and nothing but a line for the other."""
        source: Any = self._load(self.root)
        ids = {source.get("test", index).id for index in range(source.size("test"))}
        assert self._good in ids, what
        assert all(str(entry).isprintable() and len(entry.reason) <= 501 for entry in source.left_out), what
        return list(source.left_out)


def _named(write: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """Write a task whose instruction says its name: the same problem twice is left out as repeated."""

    def written(folder: Path) -> Path:
        write(folder)
        for name in ("instruction.md", "task.yaml"):
            if (folder / name).is_file():
                text = (folder / name).read_text(encoding="utf-8")
                (folder / name).write_text(text.replace("Write hello", f"{folder.name}: write hello"), encoding="utf-8")
        return folder

    return written


@pytest.fixture
def harbor(tmp_path: Path) -> Tried:
    write = _named(harbor_task)
    return Tried(tmp_path / "tasks", write, lambda root: FolderTasks(root, split_by="test"), "good")


@pytest.fixture
def terminal_bench(tmp_path: Path) -> Tried:
    write = _named(terminal_bench_task)
    return Tried(tmp_path / "tasks", write, lambda root: FolderTasks(root, split_by="test"), "good")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


@pytest.mark.parametrize("place", HARBOR)
def test_any_value_anywhere_in_a_harbor_task_loses_no_other_task(harbor: Tried, place: str):
    bad = harbor.bad()
    for value in VALUES:
        (bad / "task.toml").write_text(f"{place} = {_toml(value)}\n", encoding="utf-8")
        harbor.left_out((place, value))


@pytest.mark.parametrize("place", ["environment.cpus", "environment.memory_mb", "agent.timeout_sec"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", '"much"'])
def test_a_limit_that_is_none_is_refused(harbor: Tried, place: str, value: str):
    (harbor.bad() / "task.toml").write_text(f"{place} = {value}\n", encoding="utf-8")
    (left,) = harbor.left_out(value)
    assert place.partition(".")[2].removesuffix("_sec") in left.reason


@pytest.mark.parametrize("place", TERMINAL_BENCH)
def test_any_value_anywhere_in_a_terminal_bench_task_loses_no_other_task(terminal_bench: Tried, place: str):
    bad = terminal_bench.bad()
    content = yaml.safe_load((bad / "task.yaml").read_text(encoding="utf-8"))
    for value in (None, *VALUES):
        (bad / "task.yaml").write_text(yaml.safe_dump(content | {place: value}), encoding="utf-8")
        terminal_bench.left_out((place, value))


def test_any_value_anywhere_in_a_container_loses_no_other_task(terminal_bench: Tried):
    compose = terminal_bench.bad() / "docker-compose.yaml"
    content = yaml.safe_load(compose.read_text(encoding="utf-8"))
    client = content["services"]["client"]
    for value in (None, *VALUES):
        contents = [{"services": value}, {"services": {"client": value}}]
        contents += [{"services": {"client": client | {place: value}}} for place in CONTAINER]
        contents += [{"services": {"client": client | {"build": {"context": value}}}}]
        for one in contents:
            compose.write_text(yaml.safe_dump(one), encoding="utf-8")
            terminal_bench.left_out(one)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("harbor", "task.toml"), ("terminal_bench", "task.yaml"), ("terminal_bench", "docker-compose.yaml")],
)
def test_a_file_that_holds_anything_loses_no_other_task(request: pytest.FixtureRequest, kind: str, name: str):
    tried: Tried = request.getfixturevalue(kind)
    bad = tried.bad()
    for text in TEXTS:
        (bad / name).write_bytes(text)
        tried.left_out(text)


def test_marks_of_windows_are_read(harbor: Tried):
    bad = harbor.bad()
    (bad / "task.toml").write_bytes(b'\xef\xbb\xbf[task]\r\nname = "of-windows"\r\n')
    (bad / "instruction.md").write_bytes(b"\xef\xbb\xbfDo it.\r\nNow.\r\n")
    assert harbor.left_out("marks") == []
    assert FolderTasks(harbor.root, split_by="test").find("of-windows").prompt == "Do it.\nNow."


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("change", [Path.unlink, _pipe, _folder, _large])
@pytest.mark.parametrize(("kind", "name"), [("harbor", "instruction.md"), ("terminal_bench", "task.yaml")])
def test_what_is_no_file_of_text_neither_hangs_nor_fills_memory(
    request: pytest.FixtureRequest, kind: str, name: str, change: Callable[[Path], object]
):
    tried: Tried = request.getfixturevalue(kind)
    change(tried.bad() / name)
    tried.left_out(name)


LINKED = [
    ("harbor", "instruction.md"), ("harbor", "tests"), ("harbor", "tests/test.sh"), ("harbor", "environment"),
    ("harbor", "environment/Dockerfile"), ("harbor", "solution"), ("harbor", "task.toml"),
    ("terminal_bench", "run-tests.sh"), ("terminal_bench", "tests"), ("terminal_bench", "tests/secret.py"),
    ("terminal_bench", "Dockerfile"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), LINKED)
def test_a_link_to_outside_of_its_folder_shows_nothing_of_this_machine(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, name: str
):
    tried: Tried = request.getfixturevalue(kind)
    place = tried.bad() / name
    elsewhere = tmp_path / "elsewhere"
    if place.is_dir():
        shutil.move(place, elsewhere)
    else:
        elsewhere.write_text("secret", encoding="utf-8")
        place.unlink(missing_ok=True)
    place.symlink_to(elsewhere)
    (left,) = tried.left_out(name)
    assert left.reason == f"{name} is a link to outside of the folder; copy what it names"


def test_a_link_within_its_folder_is_followed(harbor: Tried):
    bad = harbor.bad()
    (bad / "instruction.md").rename(bad / "text.md")
    (bad / "instruction.md").symlink_to("text.md")
    assert harbor.left_out("within") == []


@pytest.fixture
def short_socket(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        yield made


def test_sockets_and_odd_links_in_the_image_are_no_problem(
    harbor: Tried, short_socket: socket.socket, monkeypatch: pytest.MonkeyPatch
):
    inside = harbor.bad() / "environment"
    monkeypatch.chdir(inside)
    short_socket.bind("socket")
    (inside / "loop").symlink_to("loop")
    (inside / "nowhere").symlink_to("/nowhere")
    assert harbor.left_out("odd files") == []


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "x" * 201, "\udcff"])
def test_a_name_that_cannot_be_printed_is_refused(harbor: Tried, name: str):
    (harbor.bad() / "task.toml").write_bytes(b'task.name = "' + os.fsencode(name).replace(b"\n", b"\\n") + b'"\n')
    assert len(harbor.left_out(name)) == 1


def test_folders_with_unusual_names_are_read(harbor: Tried):
    bad = harbor.bad()
    for number, name in enumerate(("é ü", "-x", "test;rm", "日本")):
        shutil.copytree(bad, harbor.root / name)
        (harbor.root / name / "instruction.md").write_text(f"Do {number}.", encoding="utf-8")
    assert harbor.left_out("names") == []
