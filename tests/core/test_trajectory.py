"""Trajectories: lossless files, refused records, tokens and outcomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.base.errors import UsageError
from agentgym.core.endings import Ending, Reason
from agentgym.core.messages import assistant, user
from agentgym.core.trajectory import SCHEMA_VERSION, Tokens, Trajectory, Turn, read_jsonl, write_jsonl
from tests.refusals import differing, not_refused, refusal


def record(id: str = "a", **values: Any) -> Trajectory:
    defaults: dict[str, Any] = {"env_id": "e", "task_id": "t", "task_hash": "h", "seed": 0, "policy": "p"}
    return Trajectory(**{"id": id, **defaults, "opening": [user("start")], **values})


def ids_in(path: Path) -> list[str]:
    return [trajectory.id for trajectory in read_jsonl(path)]


def merged(text: str) -> str:
    """JSON does not distinguish a pair of surrogates from the character they encode."""
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
    turns: list[Turn] = []
    for _ in range(draw(st.integers(0, 3))):
        span = None
        if tokens is not None and draw(st.booleans()):
            tokens.append_observed(draw(ids))
            sampled = draw(ids)
            span = tokens.append_sampled(sampled, [draw(numbers) for _ in sampled], draw(st.integers(0, 9)))
        finish = draw(st.sampled_from([None, "stop", "length", "time"]))
        observation = draw(st.lists(messages, max_size=3))
        turns.append(Turn(draw(actions), observation, draw(rewards), draw(numbers), span, finish=finish))
    return turns, tokens


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


# Files.


@given(st.lists(trajectories, max_size=3))
def test_a_file_is_lossless(tmp_path_factory: pytest.TempPathFactory, written: list[Trajectory]):
    path = tmp_path_factory.mktemp("lossless") / "t.jsonl"
    write_jsonl(path, written)
    assert list(read_jsonl(path)) == written
    for trajectory in written:
        data = trajectory.to_dict()
        assert json.loads(json.dumps(data)) == data
        assert Trajectory.from_dict(data) == trajectory


def test_appending_creates_the_file_and_writing_replaces_it(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    for _ in range(2):
        write_jsonl(path, [record("a")], append=True)
    assert ids_in(path) == ["a", "a"]
    write_jsonl(path, [record("b")])
    assert ids_in(path) == ["b"]
    path.write_text("")
    write_jsonl(path, [record("c"), record("d")], append=True)
    assert (ids_in(path), path.read_text().count("\n")) == (["c", "d"], 2)


@pytest.mark.parametrize("tail", [b"", b'{"schema": 1, "id": "\xe2\x82', b"{", b"\0" * 64, b'{"id": N'])
def test_a_torn_last_line_is_skipped_with_a_warning(tmp_path: Path, tail: bytes, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record("a"), record("b")])
    path.write_bytes(path.read_bytes() + tail)
    assert ids_in(path) == ["a", "b"]
    assert [str(path) + ":3: the last line was cut off" in text for text in caplog.messages] == [True] * bool(tail)
    write_jsonl(path, [record("c")], append=True)
    assert ids_in(path) == ["a", "b", "c"]


FOREIGN = [
    b"{'a': 1",
    b"notes",
    b'{"schema": 1',
    b'{"name": "x", "items": [1,',
    b"a line\n{",
    b"\0" * 99,
    b"\x89PNG\r\n\0",
]


@pytest.mark.parametrize("content", FOREIGN)
def test_nothing_is_removed_from_a_file_that_holds_no_trajectories(tmp_path: Path, content: bytes):
    path = tmp_path / "t.jsonl"
    path.write_bytes(content * 30)
    with pytest.raises(UsageError, match="its last line is cut off, but it does not begin as agentgym's files do"):
        write_jsonl(path, [record("a")], append=True)
    assert path.read_bytes() == content * 30


def test_a_file_cut_anywhere_keeps_its_earlier_lines(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [record("a")])
    first = len(path.read_bytes())
    write_jsonl(path, [record("é\udcff", error="ß")], append=True)
    content = path.read_bytes()
    for end in range(first, len(content)):
        path.write_bytes(content[:end])
        write_jsonl(path, [record("c")], append=True)
        whole = ["é\udcff"] if end == len(content) - 1 else []
        assert ids_in(path) == ["a", *whole, "c"]


def test_an_old_recording_without_usage_is_read(tmp_path: Path):
    old = line_of(counts={"calls": 2, "tool_errors": 1, "format_errors": 0})
    del old["usage"]
    (tmp_path / "old.jsonl").write_text(json.dumps(old) + "\n")
    [trajectory] = read_jsonl(tmp_path / "old.jsonl")
    assert (trajectory.usage, trajectory.counts["tool_errors"]) == ({}, 1)


def test_an_unreadable_or_unwritable_file_is_named(tmp_path: Path):
    paths = [(path, f"cannot read '{path}'") for path in (tmp_path, tmp_path / "nowhere.jsonl")]
    assert not_refused(lambda path: list(read_jsonl(path)), paths) == []
    assert f"cannot write '{tmp_path}'" in refusal(lambda: write_jsonl(tmp_path, [record()]))


# Records.


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
    "nothing in it": ({}, "no schema version"),
    "no schema": ({k: v for k, v in line_of().items() if k != "schema"}, "no schema version"),
    "a newer schema": (line_of(schema=SCHEMA_VERSION + 1), f"schema version {SCHEMA_VERSION + 1}"),
    "a missing field": ({k: v for k, v in line_of().items() if k != "task_hash"}, "needs the field 'task_hash'"),
    "an unknown field": (line_of(mood="good"), "no field 'mood'; was it written by a newer release?"),
    "a seed that is true": (line_of(seed=True), "field 'seed'"),
    "a message without content": (line_of(opening=[{"role": "user"}]), "field 'opening'"),
    "an unknown ending": (line_of(reason="bored"), "field 'reason' of a trajectory must be the name of an ending"),
    "seconds beyond floats": (line_of(seconds=10**400), "a finite number, not 1" + "0" * 59 + "…"),
    "a turn without a reward": (line_of(turns=[{"action": "x", "observation": [], "rewards": {}}]), "needs the field"),
    "a span without tokens": (line_of(tokens=None), "the span of turn 1"),
    "tokens without a mask": (
        line_of(tokens={k: v for k, v in tokens_of().items() if k != "loss_mask"}),
        "'tokens' needs the field 'loss_mask'",
    ),
    "a mask of other numbers": (line_of(tokens=tokens_of(loss_mask=[1, 2])), "a list of 0 and 1"),
}


def test_a_malformed_record_is_refused_with_its_line_and_fault(tmp_path: Path):
    path, good = tmp_path / "t.jsonl", json.dumps(line_of())

    def read(name: str) -> list[Trajectory]:
        path.write_text(f"{good}\n\n{json.dumps(MALFORMED[name][0])}\n{good}\n")
        return list(read_jsonl(path))

    assert not_refused(read, [(name, words) for name, (_, words) in MALFORMED.items()]) == []
    assert not_refused(read, [(name, f"{path}:3: ") for name in MALFORMED]) == []
    assert [name for name in MALFORMED if "\n" in refusal(lambda name=name: read(name))] == []


def test_every_field_is_checked():
    wrong: Any = [[None]]
    rows = [(line_of(**{name: wrong}), f"field '{name}' of a trajectory") for name in line_of() if name != "schema"]
    rows += [(line_of(turns=turn_of(**{name: wrong})), f"field '{name}' of turn 1") for name in turn_of()[0]]
    rows += [(line_of(tokens=tokens_of(**{name: wrong})), f"field '{name}' of 'tokens'") for name in tokens_of()]
    assert not_refused(Trajectory.from_dict, rows) == []


RAW: dict[str, tuple[bytes, str]] = {
    "half a line in the middle": (b'{"schema": 1,\n', "not JSON"),
    "not a number": (b'{"schema": 1, "reward": NaN}\n', "NaN is not a number"),
    "UTF-16": ("{}".encode("utf-16") + b"\n", "not UTF-8 text"),
    "too deep": (b'{"schema": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "nested too deeply"),
    "two objects": (b"{} {}\n", "not JSON: Extra data"),
}


def test_a_line_of_invalid_json_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, good = tmp_path / "t.jsonl", json.dumps(line_of()).encode()

    def read(content: bytes) -> list[Trajectory]:
        path.write_bytes(good + b"\n" + content)
        return list(read_jsonl(path))

    assert not_refused(read, RAW.values()) == []
    assert not_refused(read, [(content, f"{path}:2: ") for content, _ in RAW.values()]) == []
    monkeypatch.setattr("agentgym.base.json_lines.MAX_LINE", 2**20)
    assert f"{path}:2: the line is longer than 1 MiB" in refusal(lambda: read(b"x" * (2**20 + 1) + b"\n"))


# Tokens.


def stream() -> tuple[Tokens, list[tuple[int, int]]]:
    """Two sampled turns with an observation after each."""
    tokens, spans = Tokens(prompt_ids=[1, 2, 3]), []
    spans.append(tokens.append_sampled([10, 11], [-0.1, -0.2], 4))
    tokens.append_observed([20, 21, 22])
    spans.append(tokens.append_sampled([12], [-0.3], 5))
    tokens.append_observed([23])
    return tokens, spans


def with_tokens(spans: list[tuple[int, int] | None], **changes: Any) -> dict[str, Any]:
    data = record(turns=[Turn("a", [], {}, 0.0, span) for span in spans], tokens=stream()[0]).to_dict()
    data["tokens"] |= changes
    return data


def test_tokens_are_one_stream_with_a_mask_for_sampled_ones():
    tokens, spans = stream()
    assert tokens.completion_ids == [10, 11, 20, 21, 22, 12, 23]
    assert tokens.loss_mask == [1, 1, 0, 0, 0, 1, 0]
    assert tokens.logprobs == [-0.1, -0.2, 0.0, 0.0, 0.0, -0.3, 0.0]
    assert tokens.versions == [4, 4, -1, -1, -1, 5, -1]
    assert spans == [(0, 2), (5, 6)]
    assert (tokens.sampled, len(tokens)) == (3, 10)


def test_spans_are_ordered_within_the_completion():
    right: list[Any] = [[(0, 2), (5, 6)], [(0, 0), (0, 7)], [None, (7, 7)], [(0, 2), None, (2, 3)], []]
    for spans in right:
        assert [turn.span for turn in Trajectory.from_dict(with_tokens(spans)).turns] == spans
    wrong: list[Any] = [
        ([(0, 8)], "the span of turn 1, ["),
        ([(0, 2), (1, 6)], "the span of turn 2, ["),
        ([(2, 1)], "the span of turn 1, ["),
        ([(0, 5), None, (4, 6)], "the span of turn 3, ["),
        ([(8, 8)], "the span of turn 1, ["),
    ]
    assert not_refused(lambda spans: Trajectory.from_dict(with_tokens(spans)), wrong) == []


def test_token_lists_have_equal_lengths_and_valid_numbers():
    rows: list[Any] = [
        ({name: [0] * count}, f"'tokens' has 7 completion_ids but {count} {name}")
        for name in ("loss_mask", "logprobs", "versions")
        for count in (6, 8)
    ]
    outside = {"loss_mask": (2, -1), "versions": (-2,), "completion_ids": (-1,)}
    rows += [({name: [n] * 7}, f"field '{name}' of 'tokens'") for name, numbers in outside.items() for n in numbers]
    assert not_refused(lambda changes: Trajectory.from_dict(with_tokens([], **changes)), rows) == []


# Episodes.


def earned(*outcomes: float | None, reason: Reason | None = Reason.ANSWERED) -> Trajectory:
    """An episode of turns with these outcomes; `None` is a turn without the channel."""
    turns = [Turn("a", [], {} if outcome is None else {"outcome": outcome}, 0.5) for outcome in outcomes]
    return record(turns=turns, reason=reason)


def test_the_outcome_sums_over_turns_and_1_is_a_success():
    rows = [((0.0, 1.0), (1.0, True)), ((0.999,), (0.999, False)), ((0.5, None, 0.5), (1.0, True))]
    rows += [((2.0, -0.5), (1.5, True)), ((), (0.0, False))]
    for outcomes, expected in rows:
        trajectory = earned(*outcomes)
        assert (trajectory.outcome, trajectory.success) == expected
        assert (trajectory.reward, len(trajectory.channels)) == (0.5 * len(outcomes), len(outcomes))


def test_only_infrastructure_endings_fail_and_never_count_as_success():
    failures = {Reason.INFRASTRUCTURE, Reason.RESET_TIME, Reason.STEP_TIME, Reason.TOOL_TIME}
    failures |= {Reason.BROKEN_TASK, Reason.SCRIPT_FAILED, Reason.CANCELLED}
    assert (
        differing(lambda reason: record(reason=reason).failed, [(reason, reason in failures) for reason in Reason])
        == []
    )
    assert (record(reason=None).failed, earned(1.0, reason=None).ending) == (False, None)
    assert [earned(1.0, reason=reason).success for reason in (Reason.MAX_TURNS, Reason.INFRASTRUCTURE)] == [True, False]
    assert earned(1.0, reason=Reason.INFRASTRUCTURE).ending is Ending.FAILED


def test_the_conversation_has_both_forms_of_actions_and_skips_gradings():
    look = assistant("look")
    turns = [Turn("hm", [user("1")], {}, 0.0), Turn(look, [user("2")], {}, 0.0), Turn(None, [user("3")], {}, 0.0)]
    trajectory = record(turns=turns)
    assert trajectory.messages == [user("start"), assistant("hm"), user("1"), look, user("2"), user("3")]
    assert trajectory.model_turns == turns[:2]
