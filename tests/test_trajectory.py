from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.endings import Ending, Reason
from agentgym.errors import UsageError
from agentgym.messages import assistant, user
from agentgym.trajectory import SCHEMA_VERSION, Tokens, Trajectory, Turn, read_jsonl, write_jsonl


def merged(text: str) -> str:
    """JSON cannot tell a pair of surrogates from the character they mean."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


texts = st.text(st.characters(exclude_categories=())).map(merged)
numbers = st.floats(allow_nan=False, allow_infinity=False)
rewards = st.dictionaries(texts, numbers, max_size=3)
messages = st.builds(lambda role, content: {"role": role, "content": content}, texts, texts)
actions = st.none() | texts | messages
spans = st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9))
turns = st.builds(Turn, actions, st.lists(messages, max_size=3), rewards, numbers, spans)
ids = st.lists(st.integers(0, 2**31), max_size=5)
tokens = st.none() | st.builds(Tokens, ids, ids, ids, st.lists(numbers, max_size=5), ids)
trajectories = st.builds(
    Trajectory,
    id=texts,
    env_id=texts,
    task_id=texts,
    task_hash=texts,
    seed=st.none() | st.integers(0, 2**63),
    policy=texts,
    opening=st.lists(messages, max_size=3),
    env_kwargs=st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=3),
    tags=st.lists(texts, max_size=3).map(tuple),
    turns=st.lists(turns, max_size=3),
    reason=st.none() | st.sampled_from(list(Reason)),
    counts=st.dictionaries(texts, st.integers(), max_size=2),
    tokens=tokens,
    seconds=numbers,
    error=st.none() | texts,
)


@given(st.lists(trajectories, max_size=3))
def test_jsonl_gives_back_exactly_what_was_written(tmp_path_factory: pytest.TempPathFactory, written: list[Trajectory]):
    path = tmp_path_factory.mktemp("lossless") / "t.jsonl"
    write_jsonl(path, written)
    assert list(read_jsonl(path)) == written


def test_a_lone_surrogate_survives(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record(turns=[Turn("\udcff \ud83d", [], {}, 0.0)])])
    assert next(read_jsonl(path)).turns[0].action == "\udcff \ud83d"


def test_a_cut_off_last_line_is_passed_over(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record("a"), record("b")])
    path.write_text(path.read_text()[:-20])
    assert [t.id for t in read_jsonl(path)] == ["a"]


def test_appending_after_a_crash_mends_the_file(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record("a"), record("b")])
    path.write_text(path.read_text()[:-20])
    write_jsonl(path, [record("c")], append=True)
    assert [t.id for t in read_jsonl(path)] == ["a", "c"]


def test_appending_keeps_a_whole_last_line_without_a_line_end(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record("a")])
    path.write_text(path.read_text().rstrip("\n"))
    write_jsonl(path, [record("b")], append=True)
    assert [t.id for t in read_jsonl(path)] == ["a", "b"]


def test_a_bad_line_in_the_middle_is_named(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record("a")])
    path.write_text(path.read_text() + "{oops\n" + path.read_text())
    with pytest.raises(UsageError, match=r"t\.jsonl:2: not a trajectory"):
        list(read_jsonl(path))


@pytest.mark.parametrize("line", ["[1]", "null", '"text"', "{}", "3"])
def test_json_that_is_no_trajectory_is_a_clear_error(tmp_path: Path, line: str):
    path = tmp_path / "t.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UsageError, match=r"t\.jsonl:1: "):
        list(read_jsonl(path))


def test_a_file_that_is_no_text_is_a_clear_error(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a file of trajectories"):
        list(read_jsonl(path))


def test_another_schema_version_is_a_clear_error(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(record().to_dict() | {"schema": SCHEMA_VERSION + 1}) + "\n")
    with pytest.raises(UsageError, match=rf"schema version {SCHEMA_VERSION + 1}; this release reads {SCHEMA_VERSION}"):
        list(read_jsonl(path))


def test_tokens_keep_their_lists_in_step():
    stream = Tokens(prompt_ids=[1, 2])
    assert stream.append_sampled([3, 4], [-0.1, -0.2], version=7) == (0, 2)
    stream.append_observed([5])
    assert stream.append_sampled([6], [-0.3], version=8) == (3, 4)
    assert stream.completion_ids == [3, 4, 5, 6]
    assert stream.loss_mask == [1, 1, 0, 1]
    assert stream.logprobs == [-0.1, -0.2, 0.0, -0.3]
    assert stream.versions == [7, 7, -1, 8]
    assert (stream.sampled, len(stream)) == (3, 6)


def test_messages_are_the_whole_conversation_in_order():
    spoken = record(turns=[Turn("hi", [user("ho")], {}, 0.0), Turn(None, [], {}, 0.0)])
    assert spoken.messages == [user("start"), assistant("hi"), user("ho")]


def test_a_failed_episode_is_never_a_success():
    solved = [Turn("x", [], {"outcome": 1.0}, 1.0)]
    assert record(turns=solved, reason=Reason.SOLVED).success
    failed = record(turns=solved, reason=Reason.INFRASTRUCTURE)
    assert failed.ending is Ending.FAILED
    assert not failed.success


def record(id: str = "a", **values) -> Trajectory:
    known = {"env_id": "e", "task_id": "t", "task_hash": "h", "seed": 0, "policy": "p", "opening": [user("start")]}
    return Trajectory(**{"id": id, **known, **values})
