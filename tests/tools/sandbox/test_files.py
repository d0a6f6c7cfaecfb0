"""The driver's access to workspace files: contents, listings, archives, and paths that lead elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import ToolError
from agentgym.tools.sandbox import DirectoryEntry, FileProblem, Sandbox, SandboxSpec, SandboxTier
from tests.rows import each_row
from tests.tools.sandbox.tiers import SPEC, open_on

pytestmark = pytest.mark.real


@pytest.fixture
def sandbox(tier: SandboxTier) -> Iterator[Sandbox]:
    with open_on(tier) as opened:
        yield opened


def problem_of(call: Callable[..., object], *arguments: object, **options: Any) -> str:
    """Return the kind of the file problem that a call raises."""
    with pytest.raises(FileProblem) as error:
        call(*arguments, **options)
    assert isinstance(error.value, ToolError)
    return error.value.kind


def test_written_files_are_visible_to_runs(sandbox: Sandbox) -> None:
    sandbox.write("a/b/c.sh", "#!/bin/bash\necho ran", mode=0o755)
    assert sandbox.read("a/b/c.sh") == b"#!/bin/bash\necho ran"
    assert sandbox.read(f"{sandbox.workdir}/a/b/c.sh") == b"#!/bin/bash\necho ran"
    assert sandbox.exec(["a/b/c.sh"]).out == "ran\n"
    sandbox.remove("a")
    assert problem_of(sandbox.remove, "a") == "not_found"


def test_listings_are_sorted_and_bounded_and_include_kinds(sandbox: Sandbox) -> None:
    sandbox.upload({"b.txt": b"12", "a/x": b"", "a/y/z": b"1"})
    sandbox.exec(["bash", "-c", "ln -s b.txt link; mkfifo fifo"])
    rows = [
        DirectoryEntry("a", "dir", 0),
        DirectoryEntry("b.txt", "file", 2),
        DirectoryEntry("fifo", "other", 0),
        DirectoryEntry("link", "link", 0),
    ]
    assert sandbox.list() == rows
    assert [entry.path for entry in sandbox.list("a", depth=5)] == ["a/x", "a/y", "a/y/z"]
    assert len(sandbox.list(depth=9, max_entries=3)) == 3


def test_a_folder_of_the_host_is_uploaded_with_modes_and_links(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "run").write_text("#!/bin/bash\necho hello")
    (tmp_path / "sub" / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("sub/run")
    sandbox.upload(tmp_path, "in")
    assert sandbox.exec(["in/link"]).out == "hello\n"
    assert sandbox.download("in") == {"sub/run": b"#!/bin/bash\necho hello"}


def test_a_snapshot_restores_everything(sandbox: Sandbox) -> None:
    sandbox.exec(["bash", "-c", "mkdir -p d/e; echo 1 > d/f; chmod 640 d/f; ln -s d l; chmod 500 d/e"])
    before = sandbox.exec(["bash", "-c", "ls -lR --time-style=+"]).out
    snapshot = sandbox.snapshot()
    sandbox.exec(["bash", "-c", "rm -rf d; echo 2 > new; mkdir l2"])
    sandbox.restore(snapshot)
    assert sandbox.exec(["bash", "-c", "ls -lR --time-style=+"]).out == before
    assert snapshot.files == {"d/f": b"1\n"}


@each_row("path", ["../x", "a/../../x", "/etc/passwd", "/work/../etc/passwd", "link/passwd", "up/x"])
def test_no_path_leads_out_of_the_workspace(sandbox: Sandbox, path: str) -> None:
    sandbox.exec(["bash", "-c", "ln -s /etc link; ln -s .. up; mkfifo fifo"])
    assert problem_of(sandbox.read, path) in ("outside", "not_a_file")
    assert problem_of(sandbox.write, path, "x")
    assert problem_of(sandbox.read, "fifo") == "not_a_file"
    assert sandbox.download() == {}


def test_sizes_are_bounded(sandbox: Sandbox) -> None:
    sandbox.exec(code="f = open('sparse', 'wb'); f.truncate(50_000_000)")
    assert problem_of(sandbox.read, "sparse", max_bytes=1000) == "too_large"
    assert problem_of(sandbox.download, max_bytes=1000) == "too_large"


def test_a_template_is_shared_and_never_changed(tier: SandboxTier, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_text("original")
    spec = SandboxSpec(limits=SPEC.limits, template=tmp_path)
    with open_on(tier, spec) as first, open_on(tier, spec) as second:
        assert first.exec(["bash", "-c", "echo changed > sub/file; echo new > sub/new; ls sub"]).out == "file\nnew\n"
        assert second.download() == {"sub/file": b"original"}
    assert {path.name: path.read_text() for path in (tmp_path / "sub").iterdir()} == {"file": "original"}
