"""A broken task folder is left out with its reason and does not affect other folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("docker", reason="needs the [docker] extra")

from agentgym.core.task_files import LeftOut
from agentgym.tasks.folders import FolderTasks
from tests.task_folders import harbor_task, terminal_bench_task

TEXTS = (b"", b"\xff\xfe", b"\0", b"a=" + b"[" * 3_000, b"a: " + b"[" * 2_000, b"!!python/object/apply:os.abort []")


class Folders:
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
    config.write_text('task.name = "a\\nb"\n', encoding="utf-8")
    assert len(harbor.left_out("a name")) == 1


def test_missing_and_special_files_affect_no_other_task(harbor: Folders, terminal_bench: Folders):
    for folders, name in ((harbor, "instruction.md"), (terminal_bench, "task.yaml")):
        for make in (None, os.mkfifo, Path.mkdir):
            path = folders.rewrite() / name
            path.unlink()
            if make is not None:
                make(path)
            folders.left_out((name, make))


def test_a_link_out_of_the_folder_is_refused(harbor: Folders, terminal_bench: Folders, tmp_path: Path):
    files = [
        *product([harbor], ("instruction.md", "tests", "tests/test.sh", "environment/Dockerfile", "solution")),
        *product([terminal_bench], ("run-tests.sh", "tests/secret.py", "Dockerfile")),
    ]
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
