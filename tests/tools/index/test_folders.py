"""An index folder is complete or absent, even with concurrent builders, readers, forks and killed builds."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.base.errors import UsageError
from agentgym.tools.index import Document, LocalIndex, build_index, content_hash, open_index
from tests.rows import each_row
from tests.tools.index.index_cases import DOCUMENTS, FOLDERS, LEXICAL, build, encode, ids

ON_DISK = [backend for backend in LEXICAL if backend != "memory"]


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start another process with `DOCUMENTS`."""
    head = "import os, signal, sys\nfrom agentgym.tools.index import *\nfrom tests.tools.index.index_cases import *\n"
    root = Path(__file__).parents[3]
    argv = [sys.executable, "-c", head + code, *map(str, arguments)]
    # Compiling would take much longer than the work of these processes.
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return subprocess.Popen(argv, cwd=root, env=env, text=True, stdout=subprocess.PIPE)


@each_row("backend", FOLDERS)
def test_reopened_and_unpickled_indexes_give_the_same_answers(tmp_path, backend):
    built = build(tmp_path / "x", backend)
    hits = built.search("prince of the danube", 20)
    twin = pickle.loads(pickle.dumps(built))
    built.close()
    opened = open_index(tmp_path / "x", encode if backend in ("dense", "hybrid") else None)
    for index in (twin, opened):
        assert (len(index), index.search("prince of the danube", 20)) == (len(DOCUMENTS), hits)
        index.close()


@each_row("backend", ON_DISK)
def test_readers_and_threads_get_the_same_answers(tmp_path, backend):
    first = build(tmp_path / "x", backend)
    second = open_index(tmp_path / "x")
    hits = first.search("prince danube", 5)
    with ThreadPoolExecutor(8) as threads:
        jobs = [threads.submit((first, second)[turn % 2].search, "prince danube", 5) for turn in range(200)]
        assert all(job.result() == hits for job in jobs)
    first.close()
    assert second.open("tisza").title == "Tisza"
    second.close()


@pytest.mark.real
def test_concurrent_builders_leave_one_index(tmp_path):
    code = "index = build_index(DOCUMENTS, sys.argv[1]); print(index.search('vaslui')[0].id, index.content)"
    builders = [python(code, tmp_path / "x") for _ in range(3)]
    outputs = {builder.communicate()[0] for builder in builders}
    assert outputs == {f"moldavia {content_hash(DOCUMENTS)}\n"}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.real
@each_row("backend", ON_DISK)
def test_a_killed_build_leaves_no_index_and_the_next_one_cleans_up(tmp_path, backend):
    code = """
def documents():
    yield from DOCUMENTS
    os.kill(os.getpid(), signal.SIGKILL)
build(Path(sys.argv[1]), sys.argv[2], documents())
"""
    with python(code, tmp_path / "x", backend) as process:
        process.communicate()
    assert process.returncode == -9
    assert [path.name.startswith(".x.building-") for path in tmp_path.iterdir()] == [True]
    with pytest.raises(UsageError, match="no index in"):
        open_index(tmp_path / "x")
    build(tmp_path / "x", backend).close()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@each_row("backend", ON_DISK)
def test_a_failed_build_keeps_the_existing_index(tmp_path, backend):
    build(tmp_path / "x", backend).close()
    with pytest.raises(UsageError, match="two documents have the id 'b'"):
        build(tmp_path / "x", backend, [Document("b", "", "other"), Document("b", "", "words")])
    index = open_index(tmp_path / "x")
    assert len(index) == len(DOCUMENTS)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    index.close()


def test_readers_keep_working_when_an_index_is_replaced(tmp_path):
    old = build_index(DOCUMENTS, tmp_path / "x")
    new = build_index([Document("new", "", "prince")], tmp_path / "x")
    assert (ids(new.search("prince")), old.open("tisza").title) == (["new"], "Tisza")
    assert {"moldavia", "wallachia"} <= set(ids(old.search("prince")))


def test_the_content_hash_identifies_the_documents(tmp_path):
    index = build_index(iter(DOCUMENTS), tmp_path / "x")
    assert isinstance(index, LocalIndex)
    assert index.content == content_hash(reversed(DOCUMENTS))
    changed = replace(DOCUMENTS[0], fields={"land": "ro"})
    assert content_hash([changed, *DOCUMENTS[1:]]) != index.content
    assert content_hash([Document("a", "b", "c")]) != content_hash([Document("a", "", "bc")])


def test_files_other_than_an_index_are_never_replaced(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError, match="is not an index"):
            build_index(DOCUMENTS, folder)
    assert (tmp_path / "file").read_text() == "mine"


@each_row("content", ["", "[]", '{"backend": 1, "what": 2}'])
def test_broken_files_of_an_index_are_reported(tmp_path, content):
    build_index(DOCUMENTS, tmp_path / "x").close()
    (tmp_path / "x" / "tantivy" / "meta.json").write_text("broken")
    with pytest.raises(UsageError, match="cannot be opened; rebuild it"):
        open_index(tmp_path / "x")
    (tmp_path / "x" / "index.json").write_text(content)
    with pytest.raises(UsageError, match="is not a valid index manifest"):
        open_index(tmp_path / "x")


@each_row(
    "document, message",
    [
        (Document("", "", "x"), "an id must have 1 to 512 characters, not 0"),
        (Document("x" * 513, "", "x"), "an id must have 1 to 512 characters, not 513"),
        (Document("\ud800", "", "x"), "lone surrogate"),
        (Document("a", "", "x", {"number": 3}), "fields of document 'a' must be strings"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_an_invalid_document_is_reported(tmp_path, document, message):
    with pytest.raises(UsageError, match=message):
        build_index([document], tmp_path / "x")
