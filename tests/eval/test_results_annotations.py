from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.base.errors import UsageError
from agentgym.eval.results.annotations import Annotation, Annotations


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "eval.jsonl"


def test_annotations_are_found_by_trajectory_and_kind(file: Path):
    notes = Annotations(file)
    notes.add([Annotation("a#0", None, "grade", {"success": True}), Annotation("a#0", 3, "grade", {"success": False})])
    notes.add([Annotation("a#0", 3, "credit", {"advantages": [0.5, -1.0]})])
    for opened in (notes, Annotations(file)):
        assert opened.of("a#0") == {"grade": {"success": True}}
        assert opened.of("a#0", 3) == {"grade": {"success": False}, "credit": {"advantages": [0.5, -1.0]}}
        assert opened.of("b#0") == {}


def test_the_last_annotation_of_a_kind_counts_and_none_is_lost(file: Path):
    Annotations(file).add([Annotation("a#0", None, "grade", {"by": number}) for number in (1, 2)])
    assert Annotations(file).of("a#0") == {"grade": {"by": 2}}
    assert file.with_name("eval.jsonl.notes").read_text().count("\n") == 2


def test_annotations_of_another_process_are_seen_after_a_refresh(file: Path):
    reader, writer = Annotations(file), Annotations(file)
    writer.add([Annotation("a#0", None, "grade", {})])
    assert (reader.refresh(), reader.refresh()) == (1, 0)
    assert reader.of("a#0") == {"grade": {}}


@pytest.mark.parametrize("end", [b'{"schema": 1, "id": "a#0", "trai', b"\0" * 300])
def test_an_incomplete_line_is_ignored(file: Path, end: bytes):
    notes = Annotations(file)
    notes.add([Annotation("a#0", None, "grade", {"by": 1})])
    with file.with_name("eval.jsonl.notes").open("ab") as torn:
        torn.write(end)
    assert (notes.refresh(), Annotations(file).of("a#0")) == (0, {"grade": {"by": 1}})
    notes.add([Annotation("a#0", None, "grade", {"by": 2})])
    assert notes.of("a#0") == Annotations(file).of("a#0") == {"grade": {"by": 2}}


def test_a_file_changed_after_reading_is_an_error(file: Path):
    notes = Annotations(file)
    notes.add([Annotation("a#0", None, "grade", {"by": 1})])
    file.with_name("eval.jsonl.notes").write_bytes(b"x" * 500)
    with pytest.raises(UsageError, match="has changed since it was read"):
        notes.of("a#0")


def test_an_invalid_annotation_is_reported_with_its_place(file: Path):
    file.with_name("eval.jsonl.notes").write_text('{"schema": 1, "id": "a"}\n')
    with pytest.raises(UsageError, match=r"eval\.jsonl\.notes: the line at byte 0 is not an annotation"):
        Annotations(file)
