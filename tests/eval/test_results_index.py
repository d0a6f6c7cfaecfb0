from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.trajectory import Tokens, write_jsonl
from agentgym.eval.results.index import TrajectoryIndex
from tests.recorded import trajectory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "eval.jsonl"
    write_jsonl(path, map(trajectory, range(5)))
    return path


def open_index(file: Path) -> TrajectoryIndex:
    return TrajectoryIndex.open(file, keep_from=0)


def index_of(file: Path) -> Path:
    return file.with_name("eval.jsonl.index")


def test_an_entry_has_the_facts_of_its_trajectory(file: Path):
    tokens = Tokens([1], [2, 3], [1, 0], [-0.5, 0.0], [0, -1])
    write_jsonl(file, [trajectory(7, tokens=tokens, training_step=4)], append=True)
    entry, written = open_index(file).entries[5], trajectory(7)
    assert (entry.success, entry.reward, entry.outcome, entry.turns) == (True, 1.0, 1.0, 2)
    assert entry.channels == {"outcome": 1.0, "format": 1.5}
    assert (entry.reason, entry.ending, entry.failed, entry.sampled_tokens) == ("solved", "terminated", False, 1)
    assert entry.key == ("guess/test/7#0", 4)
    assert (entry.counts, entry.tags, entry.seed) == (written.counts, written.tags, 7)


def test_a_stored_index_saves_parsing_the_file(file: Path):
    first = open_index(file).entries
    # Change the indexed content, except for the first line, which identifies the file.
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"guess/test/2#0"', b'"guess/test/9#0"'))
    again = open_index(file)
    assert again.entries == first
    with pytest.raises(UsageError, match=r"has changed.*guess/test/2#0"):
        again.read(2)


def test_a_file_that_grows_is_indexed_from_where_it_was(file: Path):
    index = open_index(file)
    other = open_index(file)
    write_jsonl(file, [trajectory(5), trajectory(6)], append=True)
    assert (index.refresh(), index.refresh()) == (2, 0)
    assert other.refresh() == 2  # both have appended the same two entries
    reopened = open_index(file)
    assert [entry.id for entry in reopened.entries] == [f"guess/test/{number}#0" for number in range(7)]
    assert reopened.read(6).turns[0].action == "x" * 6


def test_a_line_that_is_cut_off_waits_until_it_is_whole(file: Path):
    line = json.dumps(trajectory(5).to_dict()).encode()
    index = open_index(file)
    with file.open("ab") as growing:
        growing.write(line[:100])
        growing.flush()
        assert (index.refresh(), len(index)) == (0, 5)
        growing.write(line[100:])
        growing.flush()
        assert (index.refresh(), len(index)) == (1, 6)
        growing.write(b"\n")
    assert index.refresh() == 0
    assert index.read(5).id == "guess/test/5#0"


@pytest.mark.parametrize("change", ["another file", "shorter", "rewritten"])
def test_an_index_of_other_content_is_rebuilt(file: Path, change: str):
    index = open_index(file)
    numbers = {"another file": [9, 8], "shorter": [0, 1], "rewritten": [0, 2, 1, 3, 4]}[change]
    write_jsonl(file, map(trajectory, numbers))
    for opened_index in (index, open_index(file)):
        opened_index.refresh()
        # An index that misses the change raises an error; it never returns another trajectory.
        if change != "rewritten":
            assert [item.id for item in opened_index] == [f"guess/test/{number}#0" for number in numbers]
    if change == "rewritten":
        with pytest.raises(UsageError, match="has changed"):
            list(index)


def test_a_file_of_somebody_else_at_the_place_of_the_index_stays(file: Path):
    index_of(file).write_bytes(b"garbage")
    assert len(open_index(file)) == 5
    assert index_of(file).read_bytes() == b"garbage"


@pytest.mark.parametrize("damage", [b'{"schema": 99, "start": "x"}\n', b"", None])
def test_a_damaged_index_is_rebuilt(file: Path, damage: bytes | None):
    open_index(file)
    whole = index_of(file).read_bytes()
    index_of(file).write_bytes(whole[:-7] if damage is None else damage)
    assert len(open_index(file)) == 5
    assert index_of(file).read_bytes() == whole


def test_an_invalid_line_is_reported_with_its_place(file: Path):
    with file.open("a") as growing:
        growing.write('{"id": 3}\n')
    with pytest.raises(UsageError, match=r"eval\.jsonl:6: not a trajectory: it has no schema version"):
        open_index(file)


def test_the_last_of_several_tries_counts(file: Path):
    failed = trajectory(6, turns=[], reason=Reason.INFRASTRUCTURE, error="down")
    write_jsonl(file, [failed, trajectory(6)], append=True)
    index = open_index(file)
    assert index.entries[5].failed
    assert index.latest() == [0, 1, 2, 3, 4, 6]


def test_added_entries_match_the_file_without_parsing(tmp_path: Path):
    file = tmp_path / "eval.jsonl"
    index = open_index(file)
    added = [index.add(trajectory(number)) for number in range(4)]
    assert added == index.entries
    assert index.refresh() == 0
    index.save()
    assert [item.to_dict() for item in index] == [trajectory(number).to_dict() for number in range(4)]
    assert open_index(file).entries == TrajectoryIndex.open(file, keep_from=10**9).entries == added


@pytest.mark.parametrize("end", [b'{"schema": 1, "id', b""])
def test_additions_follow_an_unfinished_last_line(file: Path, end: bytes):
    content = file.read_bytes()
    file.write_bytes(content + end if end else content.removesuffix(b"\n"))
    index = open_index(file)
    assert index.is_cut_off == bool(end)
    assert index.add(trajectory(5)).id == "guess/test/5#0"
    assert [item.id for item in index] == [f"guess/test/{number}#0" for number in range(6)]
    assert open_index(file).entries == index.entries
