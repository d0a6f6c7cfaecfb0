"""Folders appear in the cache complete, and the first of several writers wins."""

from __future__ import annotations

from agentgym.base.cache import into_cache


def test_a_folder_is_moved_into_the_cache(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "file").write_text("mine")
    into_cache(tmp_path / "made", tmp_path / "place")
    assert [(path.name, path.read_text()) for path in tmp_path.glob("*/*")] == [("file", "mine")]


def test_an_existing_cache_folder_is_kept(tmp_path):
    for name in ("made", "place"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    into_cache(tmp_path / "made", tmp_path / "place")
    assert [(path.parent.name, path.read_text()) for path in tmp_path.glob("*/*")] == [("place", "place")]
