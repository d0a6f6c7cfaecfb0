from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.endings import Ending, Reason
from agentgym.errors import UsageError
from agentgym.messages import assistant, user
from agentgym.trajectory import SCHEMA_VERSION, Tokens, Trajectory, Turn, read_jsonl, write_jsonl


def record(id: str = "a", **values) -> Trajectory:
    known = {"env_id": "e", "task_id": "t", "task_hash": "h", "seed": 0, "policy": "p", "opening": [user("start")]}
    return Trajectory(**{"id": id, **known, **values})


def merged(text: str) -> str:
    """JSON cannot tell a pair of surrogates from the character they mean."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


texts = st.text(st.characters(exclude_categories=())).map(merged)
numbers = st.floats(allow_nan=False, allow_infinity=False)
rewards = st.dictionaries(texts, numbers, max_size=3)
messages = st.builds(lambda role, content: {"role": role, "content": content}, texts, texts)
actions = st.none() | texts | messages
ids = st.lists(st.integers(0, 2**31), max_size=5)


@st.composite
def played(draw: Any) -> tuple[list[Turn], Tokens | None]:
    """Turns, and the tokens that their spans lie in."""
    tokens = Tokens(draw(ids)) if draw(st.booleans()) else None
    found: list[Turn] = []
    for _ in range(draw(st.integers(0, 3))):
        span = None
        if tokens is not None and draw(st.booleans()):
            tokens.append_observed(draw(ids))
            sampled = draw(ids)
            span = tokens.append_sampled(sampled, [draw(numbers) for _ in sampled], draw(st.integers(0, 9)))
        found.append(Turn(draw(actions), draw(st.lists(messages, max_size=3)), draw(rewards), draw(numbers), span))
    return found, tokens


trajectories = st.builds(
    lambda played, **values: Trajectory(turns=played[0], tokens=played[1], **values),
    played(),
    id=texts,
    env_id=texts,
    task_id=texts,
    task_hash=texts,
    seed=st.none() | st.integers(0, 2**63),
    policy=texts,
    opening=st.lists(messages, max_size=3),
    env_kwargs=st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=3),
    tags=st.lists(texts, max_size=3).map(tuple),
    reason=st.none() | st.sampled_from(list(Reason)),
    counts=st.dictionaries(texts, st.integers(0), max_size=2),
    seconds=numbers,
    error=st.none() | texts,
)


@given(st.lists(trajectories, max_size=3))
def test_jsonl_gives_back_exactly_what_was_written(tmp_path_factory: pytest.TempPathFactory, written: list[Trajectory]):
    path = tmp_path_factory.mktemp("lossless") / "t.jsonl"
    write_jsonl(path, written)
    assert list(read_jsonl(path)) == written


def test_a_recording_from_before_usage_and_kinds_of_mistakes_is_read(tmp_path: Path):
    old = line_of(counts={"calls": 2, "tool_errors": 1, "format_errors": 0})
    del old["usage"]
    (tmp_path / "old.jsonl").write_text(json.dumps(old) + "\n")
    [trajectory] = read_jsonl(tmp_path / "old.jsonl")
    assert (trajectory.usage, trajectory.counts["tool_errors"]) == ({}, 1)


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


def line_of(**values: Any) -> dict[str, Any]:
    """A whole trajectory as it is stored, with some values changed."""
    tokens = Tokens([1, 2])
    span = tokens.append_sampled([3, 4], [-0.5, -1], version=0)
    turn = Turn("hi", [user("ho")], {"outcome": 1.0}, 1.0, span)
    return json.loads(json.dumps(record(turns=[turn], tokens=tokens, reason=Reason.SOLVED).to_dict())) | values


def turn_of(**values: Any) -> list[dict[str, Any]]:
    return [line_of()["turns"][0] | values]


def tokens_of(**values: Any) -> dict[str, Any]:
    return line_of()["tokens"] | values


MALFORMED: dict[str, tuple[Any, str]] = {
    "a list": ([1], "a JSON object is expected on each line, not a list"),
    "null": (None, "not null"),
    "a string": ("text", "not a string"),
    "a number": (3, "not a number"),
    "nothing in it": ({}, "no schema version"),
    "no schema": ({k: v for k, v in line_of().items() if k != "schema"}, "no schema version"),
    "a newer schema": (line_of(schema=SCHEMA_VERSION + 1), f"schema version {SCHEMA_VERSION + 1}"),
    "a schema of another type": (line_of(schema=[]), "schema version a list"),
    "a missing field": ({k: v for k, v in line_of().items() if k != "task_hash"}, "needs the field 'task_hash'"),
    "an unknown field": (line_of(mood="good"), "no field 'mood'; was it written by a newer release?"),
    "an id that is a number": (line_of(id=7), "field 'id' of a trajectory must be text, not 7"),
    "a negative seed": (line_of(seed=-1), "field 'seed'"),
    "a seed that is true": (line_of(seed=True), "field 'seed'"),
    "an opening that is text": (line_of(opening="hello"), "field 'opening'"),
    "an opening of texts": (line_of(opening=["hello"]), "field 'opening'"),
    "a message without a role": (line_of(opening=[{"content": "x"}]), "field 'opening'"),
    "a message without content": (line_of(opening=[{"role": "user"}]), "field 'opening'"),
    "arguments that are a list": (line_of(env_kwargs=[1]), "field 'env_kwargs'"),
    "tags that are text": (line_of(tags="join"), "field 'tags'"),
    "a difficulty that is text": (line_of(difficulty="3"), "field 'difficulty'"),
    "an attempt below 0": (line_of(attempt=-1), "field 'attempt'"),
    "turns that are an object": (line_of(turns={}), "field 'turns'"),
    "turns that are numbers": (line_of(turns=[1]), "field 'turns'"),
    "an unknown ending": (line_of(reason="bored"), "field 'reason' of a trajectory must be the name of an ending"),
    "an ending that is a list": (line_of(reason=["solved"]), "field 'reason'"),
    "usage of texts": (line_of(usage={"cost": "2"}), "field 'usage'"),
    "counts of texts": (line_of(counts={"calls": "2"}), "field 'counts'"),
    "seconds that are text": (line_of(seconds="2"), "field 'seconds'"),
    "seconds beyond all floats": (line_of(seconds=10**400), "field 'seconds'"),
    "an error that is an object": (line_of(error={}), "field 'error'"),
    "an action that is a number": (line_of(turns=turn_of(action=3)), "field 'action' of turn 1 must be text"),
    "a turn without a reward": (line_of(turns=[{"action": "x", "observation": [], "rewards": {}}]), "needs the field"),
    "a turn with more": (line_of(turns=turn_of(thought="hm")), "turn 1 has no field 'thought'"),
    "rewards that are a number": (line_of(turns=turn_of(rewards=1)), "field 'rewards' of turn 1"),
    "a reward of text": (line_of(turns=turn_of(rewards={"outcome": "1"})), "field 'rewards' of turn 1"),
    "a reward that is null": (line_of(turns=turn_of(reward=None)), "field 'reward' of turn 1"),
    "a span that is no pair": (line_of(turns=turn_of(span=[0])), "field 'span' of turn 1"),
    "a span below 0": (line_of(turns=turn_of(span=[-1, 2])), "field 'span' of turn 1"),
    "a span that runs backwards": (line_of(turns=turn_of(span=[2, 0])), "the span of turn 1"),
    "a span beyond the end": (line_of(turns=turn_of(span=[0, 3])), "the span of turn 1, [0, 3]"),
    "spans that overlap": (line_of(turns=turn_of() * 2), "the span of turn 2"),
    "a span without tokens": (line_of(tokens=None), "the span of turn 1"),
    "tokens that are a list": (line_of(tokens=[]), "field 'tokens'"),
    "tokens without a mask": (
        line_of(tokens={k: v for k, v in tokens_of().items() if k != "loss_mask"}),
        "'tokens' needs the field 'loss_mask'",
    ),
    "ids that are texts": (line_of(tokens=tokens_of(completion_ids=["3", "4"])), "field 'completion_ids'"),
    "ids below 0": (line_of(tokens=tokens_of(prompt_ids=[-5])), "field 'prompt_ids'"),
    "ids that are true": (line_of(tokens=tokens_of(prompt_ids=[True])), "field 'prompt_ids'"),
    "a mask of other numbers": (line_of(tokens=tokens_of(loss_mask=[1, 2])), "a list of 0 and 1"),
    "a mask that is too short": (line_of(tokens=tokens_of(loss_mask=[1])), "2 completion_ids but 1 loss_mask"),
    "log-probabilities too many": (line_of(tokens=tokens_of(logprobs=[0.0] * 3)), "2 completion_ids but 3 logprobs"),
    "versions too few": (line_of(tokens=tokens_of(versions=[])), "2 completion_ids but 0 versions"),
    "log-probabilities of texts": (line_of(tokens=tokens_of(logprobs=["a", "b"])), "field 'logprobs'"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_line_that_is_no_trajectory_is_named_with_what_is_wrong(tmp_path: Path, case: str):
    data, told = MALFORMED[case]
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(line_of()) + "\n\n" + json.dumps(data) + "\n" + json.dumps(line_of()) + "\n")
    with pytest.raises(UsageError) as caught:
        list(read_jsonl(path))
    message = str(caught.value)
    assert message.startswith(f"{path}:3: ")
    assert told in message
    assert "\n" not in message


RAW: dict[str, tuple[bytes, str]] = {
    "half a line in the middle": (b'{"schema": 1,\n', "not JSON"),
    "not a number": (b'{"schema": 1, "reward": NaN}\n', "NaN is not a number"),
    "infinity": (b'{"schema": 1, "reward": -Infinity}\n', "-Infinity is not a number"),
    "half a character": (b'{"schema": 1, "id": "\xc3"}\n', "not UTF-8 text"),
    "UTF-16": ("{}".encode("utf-16") + b"\n", "not UTF-8 text"),
    "no text at all": (b"\xff\xfe\x00", "not UTF-8 text"),
    "too deep": (b'{"schema": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "nested too deeply"),
    "too many digits": (b'{"schema": ' + b"9" * 5_000 + b"}\n", "not JSON"),
    "two objects": (b"{} {}\n", "not JSON: Extra data"),
}


@pytest.mark.parametrize("case", RAW)
def test_what_is_no_json_is_named(tmp_path: Path, case: str):
    content, told = RAW[case]
    path = tmp_path / "t.jsonl"
    path.write_bytes(json.dumps(line_of()).encode() + b"\n" + content)
    with pytest.raises(UsageError) as caught:
        list(read_jsonl(path))
    assert str(caught.value).startswith(f"{path}:2: not a trajectory: ")
    assert told in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    for path in (tmp_path, tmp_path / "nowhere.jsonl"):
        with pytest.raises(UsageError, match="cannot read"):
            list(read_jsonl(path))


def test_a_line_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.records.json_lines.MAX_LINE", 2**20)
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(line_of()) + "\n" + "x" * (2**20 + 1) + "\n")
    with pytest.raises(UsageError, match=r"t\.jsonl:2: the line is longer than 1 MiB"):
        list(read_jsonl(path))


def test_a_byte_order_mark_windows_line_ends_and_empty_lines_do_no_harm(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    line = json.dumps(line_of()).encode()
    path.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n\r\n   \n" + line)
    assert len(list(read_jsonl(path))) == 2


@pytest.mark.parametrize("tail", [b"", b'{"schema"', b'{"schema": 1, "id": "\xe2\x82', b"{", b"\0" * 64, b'{"id": N'])
def test_a_crash_in_the_middle_of_a_line_loses_no_other(tmp_path: Path, tail: bytes, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record("a"), record("b")])
    path.write_bytes(path.read_bytes() + tail)
    assert [t.id for t in read_jsonl(path)] == ["a", "b"]
    assert [str(path) + ":3: the last line was cut off" in text for text in caplog.messages] == [True] * bool(tail)
    write_jsonl(path, [record("c")], append=True)
    assert [t.id for t in read_jsonl(path)] == ["a", "b", "c"]


def test_every_place_at_which_a_crash_can_cut_a_file_leaves_the_lines_before_it(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record("a")])
    first = len(path.read_bytes())
    write_jsonl(path, [record("é\udcff", error="ß")], append=True)
    content = path.read_bytes()
    for end in range(first, len(content)):
        path.write_bytes(content[:end])
        write_jsonl(path, [record("c")], append=True)
        whole = ["é\udcff"] if end == len(content) - 1 else []
        assert [t.id for t in read_jsonl(path)] == ["a", *whole, "c"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot write"):
        write_jsonl(tmp_path, [record()])


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


@pytest.mark.parametrize("reason", [*Reason, None])
def test_only_what_broke_around_the_model_is_a_failed_episode(reason: Reason | None):
    failures = (
        Reason.INFRASTRUCTURE,
        Reason.RESET_TIME,
        Reason.STEP_TIME,
        Reason.TOOL_TIME,
        Reason.BROKEN_TASK,
        Reason.CANCELLED,
    )
    assert record(reason=reason).failed is (reason in failures)


def test_the_grading_of_an_interrupted_episode_is_no_turn_of_the_model():
    first, second = Turn("", [], {}, 0.0), Turn("x", [], {}, 0.0)
    assert record(turns=[first, second, Turn(None, [], {}, 0.0)]).model_turns == [first, second]


@given(trajectories)
def test_what_a_trajectory_becomes_is_json_data_and_becomes_the_trajectory_again(trajectory: Trajectory):
    data = trajectory.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert Trajectory.from_dict(data) == trajectory
