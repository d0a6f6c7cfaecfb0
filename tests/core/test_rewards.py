"""Rewards of schemes: gates first, then means and caps; payments add up to the total."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.rewards import OUTCOME, Gate, Scheme
from tests.refusals import differing

# Four episodes of the gated-reward paper's setting: solved, wrong, empty, nothing handed in.
OUTCOMES = [1.0, 0.0, -0.5, -1.0]
LENGTHS = [2, 2, 5, 10]
SHAPED = {OUTCOME: 1.0, "format": 1.0}
SOLVED = Gate(OUTCOME, 1.0, ("format",))
CHANNELS = (OUTCOME, "format", "scaffold", "partial")


def episodes() -> list[list[dict[str, float]]]:
    runs = []
    for outcome, length in zip(OUTCOMES, LENGTHS, strict=True):
        turns = [{OUTCOME: 0.0, "format": 0.3} for _ in range(length)]
        turns[-1][OUTCOME] = outcome
        runs.append(turns)
    return runs


def test_a_shut_gate_removes_the_shaping():
    ungated = Scheme(SHAPED)
    rows = [
        (ungated, [1.6, 0.6, 1.0, 2.0]),  # stalling pays most
        (Scheme(SHAPED, (Gate(OUTCOME, 0.0, ("format",)),)), [1.6, 0.6, -0.5, -1.0]),
        (Scheme(SHAPED, (Gate(OUTCOME, 0.0, ("format",), strict=True),)), [1.6, 0.0, -0.5, -1.0]),
        (Scheme(SHAPED, (Gate(OUTCOME, math.inf, ("format",)),)), OUTCOMES),
        (Scheme(SHAPED, (Gate(OUTCOME, -math.inf, ("format",)),)), [1.6, 0.6, 1.0, 2.0]),
        (Scheme(SHAPED, (SOLVED,)).ungated(), [1.6, 0.6, 1.0, 2.0]),
        (Scheme(SHAPED, (SOLVED,)).without(OUTCOME), [0.6, 0.0, 0.0, 0.0]),  # unpaid, it still opens the gate
        (Scheme({OUTCOME: 1.0}), OUTCOMES),  # channels without a weight are not paid
    ]
    totals = [(scheme, pytest.approx(expected)) for scheme, expected in rows]
    assert differing(lambda scheme: [scheme.total(turns) for turns in episodes()], totals) == []


def test_gates_chain_and_act_turn_by_turn():
    gates = (Gate(OUTCOME, 1.0, ("format", "scaffold")), Gate("format", 0.1, ("scaffold",), scope="turn"))
    scheme = Scheme({"format": 1.0, "scaffold": 1.0}, gates)
    turns = [{"format": f, "scaffold": 0.2, OUTCOME: o} for f, o in ((0.1, 0.0), (0.1, 0.0), (0.0, 1.0))]
    assert scheme.turn_rewards(turns) == pytest.approx([0.3, 0.3, 0.0])
    turns[-1][OUTCOME] = 0.0
    assert scheme.turn_rewards(turns) == [0.0, 0.0, 0.0]


def test_a_gate_on_the_past_opens_later_and_on_a_missing_channel_never():
    scheme = Scheme({OUTCOME: 1.0}, (Gate("format", 1.0, (OUTCOME,), scope="past"),))
    same_turn = [{"format": 0.0, OUTCOME: 0.0}, {"format": 1.0, OUTCOME: 1.0}]
    before = [{"format": 1.0, OUTCOME: 0.0}, {"format": 0.0, OUTCOME: 1.0}]
    assert (scheme.total(same_turn), scheme.total(before)) == (0.0, 1.0)
    for scope in ("trajectory", "turn", "past"):
        scheme = Scheme({"format": 1.0}, (Gate("partial", 0.5, ("format",), scope=scope),))  # type: ignore[arg-type]
        turns = [{"format": 0.8}, {"format": 0.8}]
        assert (scheme.turn_rewards(turns), scheme.total(turns)) == ([0.0, 0.0], 0.0), scope


def test_a_mean_includes_turns_without_the_channel():
    scheme = Scheme({OUTCOME: 1.0, "format": -1.0}, averaged=frozenset({"format"}))
    turns = [{"format": 1.0}, {}, {}, {OUTCOME: 1.0}]
    assert scheme.total(turns) == pytest.approx(0.75)
    assert scheme.turn_rewards(turns) == pytest.approx([-0.25, 0.0, 0.0, 1.0])
    assert scheme.total([{"format": 1.0}] * 2) == scheme.total([{"format": 1.0}] * 20) == pytest.approx(-1.0)


def test_a_capped_channel_pays_up_to_its_cap_after_gates():
    scheme = Scheme({OUTCOME: 1.0, "scaffold": 0.5}, capped={"scaffold": 1.0})
    turns = [{OUTCOME: 0.0, "scaffold": value} for value in (0.0, 0.75, 0.0, 0.75, 0.75)]
    assert scheme.turn_rewards(turns) == pytest.approx([0.0, 0.375, 0.0, 0.125, 0.0])
    assert scheme.total(turns) == pytest.approx(0.5)
    assert [scheme.pay(turns[: end + 1]) for end in range(5)] == pytest.approx([0.0, 0.375, 0.0, 0.125, 0.0])
    gate = Gate("partial", 1.0, ("scaffold",), scope="turn")
    gated = Scheme({"scaffold": 1.0}, (gate,), capped={"scaffold": 1.0})
    turns = [{"scaffold": 0.8, "partial": partial} for partial in (0.0, 1.0, 1.0)]
    assert gated.turn_rewards(turns) == pytest.approx([0.0, 0.8, 0.2])
    assert gated.total(turns) == pytest.approx(1.0)
    assert Scheme(capped={"scaffold": 1.0}).total([{OUTCOME: 1.0, "scaffold": 3.0}]) == 1.0, "it is not paid"


def test_channels_in_full_count_as_one_once_solved_if_their_gates_are_open():
    scheme = Scheme({OUTCOME: 1.0, "progress": 0.5}, in_full=frozenset({"progress"}))
    short, solved = [{"progress": 0.25}, {"progress": 0.25}], {OUTCOME: 1.0}
    assert (scheme.total(short), scheme.total([*short, solved])) == pytest.approx((0.25, 1.5))
    assert scheme.turn_rewards([*short, solved]) == pytest.approx([0.125, 0.125, 1.25])
    assert scheme.turn_rewards([solved | {"progress": 3.0}]) == pytest.approx([1.5])
    gated = replace(scheme, gates=(Gate("partial", 1.0, ("progress",)),))
    for partial, paid in ((0.0, 1.0), (1.0, 1.5)):
        assert gated.total([solved | {"partial": partial}]) == pytest.approx(paid)
        assert sum(gated.turn_rewards([solved | {"partial": partial}])) == pytest.approx(paid)
    assert scheme.ungated().total([solved]) == 1.0


def test_no_turns_earn_nothing_and_gating_does_not_change_raw_values():
    averaged = Scheme(SHAPED, (SOLVED,), averaged=frozenset({"format"}))
    for scheme in (Scheme(), averaged):
        assert (scheme.total([]), scheme.turn_rewards([])) == (0.0, [])
    turns = [{OUTCOME: 0.0, "format": 1.0}]
    averaged.gated(turns)
    assert turns == [{OUTCOME: 0.0, "format": 1.0}]


values = st.floats(-1, 1, allow_nan=False)
names = st.sampled_from(sorted(CHANNELS))
gates = st.lists(
    st.builds(
        Gate,
        on=names,
        at_least=values,
        opens=st.lists(names, min_size=1, max_size=3, unique=True).map(tuple),
        scope=st.sampled_from(["trajectory", "turn", "past"]),
        strict=st.booleans(),
    ),
    max_size=3,
).map(tuple)
schemes = st.builds(
    Scheme,
    weights=st.dictionaries(names, values, min_size=1),
    gates=gates,
    averaged=st.frozensets(names),
    capped=st.dictionaries(names, st.floats(0.1, 2)),
    in_full=st.frozensets(names),
)


@given(schemes, st.lists(st.fixed_dictionaries(dict.fromkeys(CHANNELS, values)), min_size=1, max_size=8))
def test_payments_add_up_to_the_total(scheme: Scheme, turns: list[dict[str, float]]):
    paid = 0.0
    for end in range(len(turns)):
        paid += scheme.pay(turns[: end + 1], paid)
    alone = sum(scheme.pay(turns[: end + 1]) for end in range(len(turns)))
    total = pytest.approx(scheme.total(turns), abs=1e-9)
    assert [paid, alone, sum(scheme.turn_rewards(turns))] == [total] * 3
