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
        ("a.py conftest.py test_a.py noxfile.py", "a.py", "test_a.py", "."),
        ("a/__init__.py a/tests/__init__.py a/tests/test_b.py", "a/__init__.py", "a/tests/test_b.py", "."),
        ("a/__init__.py a/tools/c.py tests/b_test.py", "a/__init__.py a/tools/c.py", "tests/b_test.py", "."),
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
        ("test/test_b.py", "from common import x"),
        ("test/conftest.py", "from common import x"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['test', 'nowhere']"),
        (".pytest.ini", "[pytest]\npythonpath = . test"),
        ("setup.cfg", "[tool:pytest]\npythonpath =\n  test"),
    ],
)
def test_python_path_has_folders_that_helpers_or_settings_need(tmp_path: Path, name: str, text: str) -> None:
    files = {"a.py": "", "test/common.py": "", "test/test_a.py": "import a", name: text}
    assert read_package(write(tmp_path, files)).python_path == ((".", "test") if text else (".",))


def test_name_and_version_come_from_the_metadata(tmp_path: Path) -> None:
    files = {"PKG-INFO": "Name: some.thing\nVersion: 2.3\n", "a.py": "", "test_a.py": ""}
    package = read_package(write(tmp_path, files))
    assert (package.name, package.version) == ("some.thing", "2.3")


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


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for info, content in members:
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def test_archive_members_outside_of_the_archive_are_not_read(tmp_path: Path) -> None:
    link = tarfile.TarInfo("p/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    path = archive(
        tmp_path / "p.tar.gz",
        (tarfile.TarInfo("p/a.py"), b"x"),
        (tarfile.TarInfo("p/../../evil.py"), b"x"),
        (tarfile.TarInfo("/evil.py"), b"x"),
        (link, b""),
    )
    assert read_tree(path) == {"a.py": b"x"}


def test_archive_is_reproducible_and_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(archive_of(FILES))
    assert archive_of(FILES) == path.read_bytes()
    assert read_tree(path) == FILES
