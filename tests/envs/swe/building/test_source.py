"""Packages are read from folders and archives."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from agentgym.base.errors import UsageError
from agentgym.envs.swe.building.report import archive_of
from agentgym.tasks.swe.package import read_package, read_tree
from tests.envs.swe.building.package import FILES, write
from tests.rows import each_row


@each_row(
    "files, modules, tests, roots",
    [
        ("a/__init__.py a/b.py test_a.py setup.py", "a/__init__.py a/b.py", "test_a.py", "."),
        ("src/a/__init__.py tests/test_a.py docs/x.py", "src/a/__init__.py", "tests/test_a.py", "src ."),
        ("a/__init__.py a/tests/__init__.py a/tests/test_b.py", "a/__init__.py", "a/tests/test_b.py", "."),
    ],
)
def test_modules_tests_and_roots_follow_from_the_layout(
    tmp_path: Path, files: str, modules: str, tests: str, roots: str
) -> None:
    package = read_package(write(tmp_path, dict.fromkeys(files.split(), "")))
    paths = package.modules, package.test_files, package.python_path
    assert [" ".join(group) for group in paths] == [modules, tests, roots]


@each_row(
    "name, text",
    [
        ("conftest.py", ""),
        ("test/conftest.py", "from common import x"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['test', 'nowhere']"),
        ("setup.cfg", "[tool:pytest]\npythonpath =\n  test"),
    ],
)
def test_python_path_has_folders_that_helpers_or_settings_need(tmp_path: Path, name: str, text: str) -> None:
    files = {"a.py": "", "test/common.py": "", "test/test_a.py": "import a", name: text}
    assert read_package(write(tmp_path, files)).python_path == ((".", "test") if text else (".",))


def test_package_without_tests_or_modules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no package"):
        read_package(write(tmp_path / "x", {"test_a.py": ""}))
    with pytest.raises(UsageError, match="no test files"):
        read_package(write(tmp_path / "y", {"a.py": ""}))
    with pytest.raises(UsageError, match="neither a folder nor"):
        read_package(tmp_path / "z")


def test_caches_and_links_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "x", "__pycache__/a.pyc": "", ".git/config": "", "b.egg-info/PKG-INFO": ""})
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    assert read_tree(tmp_path) == {"a.py": b"x"}


def test_archive_members_outside_of_the_archive_are_not_read(tmp_path: Path) -> None:
    link = tarfile.TarInfo("p/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "p.tar.gz", "w:gz") as file:
        for name in ("p/a.py", "p/../../evil.py", "/evil.py"):
            info = tarfile.TarInfo(name)
            info.size = 1
            file.addfile(info, io.BytesIO(b"x"))
        file.addfile(link)
    assert read_tree(tmp_path / "p.tar.gz") == {"a.py": b"x"}


def test_archive_is_reproducible_and_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(archive_of(FILES))
    assert archive_of(FILES) == path.read_bytes()
    assert read_tree(path) == FILES
