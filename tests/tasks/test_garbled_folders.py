"""A broken task folder is left out with its reason and does not affect other folders."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import chdir
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("docker", reason="needs the [docker] extra")

from agentgym.core.task_files import LeftOut
from agentgym.tasks.folders import FolderTasks
from tests.refusals import sampled
from tests.task_folders import harbor_task, terminal_bench_task

VALUES: Sequence[Any] = (
    None, "\ud800", True, 0, -1, 5, 1.5, float("nan"), float("inf"), "", "x", "../x", "..", "a\nb", "\0", "y" * 5_000,
    10**18, [], [5], [[]], ["a", 1], {}, {"a": 5}, {"a": {}},
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


class Folders:
    """A valid task folder and one to break."""

    def __init__(self, root: Path, write: Callable[[Path], Path]):
        self.root, self._write = root, write

    def rewrite(self) -> Path:
        """Write both folders again and return the one to break."""
        shutil.rmtree(self.root, ignore_errors=True)
        for name in ("good", "bad"):
            folder = self._write(self.root / name)
            for text in (folder / "instruction.md", folder / "task.yaml"):
                if text.is_file():  # equal tasks would be left out as repeated
                    own = text.read_text(encoding="utf-8").replace("Write hello", f"{name}: write hello")
                    text.write_text(own, encoding="utf-8")
        return self.root / "bad"

    def left_out(self, change: object) -> list[LeftOut]:
        """Load both folders and return what was left out, which must not be the valid one."""
        source = FolderTasks(self.root, split_by="test")
        assert "good" in {source.get("test", index).id for index in range(source.size("test"))}, change
        assert all(str(entry).isprintable() and len(entry.reason) <= 501 for entry in source.left_out), change
        return list(source.left_out)


@pytest.fixture
def harbor(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "tasks", harbor_task)


@pytest.fixture
def terminal_bench(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "terminal-bench", terminal_bench_task)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


@sampled(3, len(VALUES))
def test_any_value_in_a_task_file_affects_no_other_task(harbor: Folders, terminal_bench: Folders, count: int):
    values = VALUES[:: len(VALUES) // count]
    toml, task = harbor.rewrite() / "task.toml", terminal_bench.rewrite() / "task.yaml"
    for place, value in product(HARBOR, (value for value in values if value is not None)):
        toml.write_bytes(f"{place} = {_toml(value)}\n".encode("utf-8", "surrogatepass"))
        harbor.left_out((place, value))
    content = yaml.safe_load(task.read_text(encoding="utf-8"))
    for place, value in product(TERMINAL_BENCH, values):
        task.write_text(yaml.safe_dump(content | {place: value}), encoding="utf-8")
        terminal_bench.left_out((place, value))


@sampled(3, len(VALUES))
def test_any_value_in_a_compose_file_affects_no_other_task(terminal_bench: Folders, count: int):
    compose = terminal_bench.rewrite() / "docker-compose.yaml"
    client = yaml.safe_load(compose.read_text(encoding="utf-8"))["services"]["client"]
    for value in VALUES[:: len(VALUES) // count]:
        clients = [value, *(client | {place: value} for place in CONTAINER), client | {"build": {"context": value}}]
        for content in ({"services": value}, *({"services": {"client": client}} for client in clients)):
            compose.write_text(yaml.safe_dump(content), encoding="utf-8")
            terminal_bench.left_out(content)


def test_malformed_files_affect_no_other_task(harbor: Folders, terminal_bench: Folders):
    files = (harbor, "task.toml"), (terminal_bench, "task.yaml"), (terminal_bench, "docker-compose.yaml")
    for folders, name in files:
        file = folders.rewrite() / name
        for text in TEXTS:
            file.write_bytes(text)
            folders.left_out(text)


def test_an_invalid_limit_or_name_is_refused(harbor: Folders):
    config = harbor.rewrite() / "task.toml"
    for place in ("environment.cpus", "environment.memory_mb", "agent.timeout_sec"):
        for value in ("nan", "inf", "-1", "0", '"much"'):
            config.write_text(f"{place} = {value}\n", encoding="utf-8")
            (entry,) = harbor.left_out(value)
            assert place.partition(".")[2].removesuffix("_sec") in entry.reason
    for name in ("a\nb", "\x1b[31m", "x" * 201, "\udcff"):
        config.write_bytes(b'task.name = "' + os.fsencode(name).replace(b"\n", b"\\n") + b'"\n')
        assert len(harbor.left_out(name)) == 1


def test_byte_order_marks_and_unusual_folder_names_are_read(harbor: Folders):
    folder = harbor.rewrite()
    for number, name in enumerate(("é ü", "-x", "test;rm", "日本")):
        shutil.copytree(folder, harbor.root / name)
        (harbor.root / name / "instruction.md").write_text(f"Do {number}.", encoding="utf-8")
    (folder / "task.toml").write_bytes(b'\xef\xbb\xbf[task]\r\nname = "of-windows"\r\n')
    (folder / "instruction.md").write_bytes(b"\xef\xbb\xbfDo it.\r\nNow.\r\n")
    assert harbor.left_out("marks") == []
    assert FolderTasks(harbor.root, split_by="test").find("of-windows").prompt == "Do it.\nNow."


def _make_large(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def test_missing_special_and_huge_files_affect_no_other_task(harbor: Folders, terminal_bench: Folders):
    for folders, name in ((harbor, "instruction.md"), (terminal_bench, "task.yaml")):
        for make in (None, os.mkfifo, Path.mkdir, _make_large):
            path = folders.rewrite() / name
            path.unlink()
            if make is not None:
                make(path)
            folders.left_out((name, make))


HARBOR_FILES = (
    "instruction.md", "task.toml", "tests", "tests/test.sh", "environment", "environment/Dockerfile", "solution",
)  # fmt: skip
TERMINAL_BENCH_FILES = ("run-tests.sh", "tests", "tests/secret.py", "Dockerfile")


def test_a_link_out_of_the_folder_is_refused(harbor: Folders, terminal_bench: Folders, tmp_path: Path):
    files = [*product([harbor], HARBOR_FILES), *product([terminal_bench], TERMINAL_BENCH_FILES)]
    for number, (folders, name) in enumerate(files):
        path, elsewhere = folders.rewrite() / name, tmp_path / f"elsewhere-{number}"
        if path.is_dir():
            shutil.move(path, elsewhere)
        else:
            elsewhere.write_text("secret", encoding="utf-8")
            path.unlink(missing_ok=True)
        path.symlink_to(elsewhere)
        (entry,) = folders.left_out(name)
        assert entry.reason.startswith(f"{name} is a link to outside the folder")


def test_internal_links_sockets_and_dangling_links_are_accepted(harbor: Folders):
    folder = harbor.rewrite()
    (folder / "instruction.md").rename(folder / "text.md")
    (folder / "instruction.md").symlink_to("text.md")
    with chdir(folder / "environment"), socket.socket(socket.AF_UNIX) as unbound:
        unbound.bind("socket")
    (folder / "environment" / "loop").symlink_to("loop")
    (folder / "environment" / "nowhere").symlink_to("/nowhere")
    assert harbor.left_out("odd files") == []
