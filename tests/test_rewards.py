"""Reward schemes: gates act first, payments add up, and unsound schemes are refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.rewards import OUTCOME, Channel, Gate, Scheme, averaging, check_scheme, lint

CHANNELS = {
    OUTCOME: Channel("solved", -1.0, 1.0),
    "format": Channel("readable", per_turn=True),
    "scaffold": Channel("valid call", per_turn=True),
    "partial": Channel("how near"),
}

# Four episodes of the gated-reward paper's setting: solved, wrong, empty, nothing handed in.
OUTCOMES = [1.0, 0.0, -0.5, -1.0]
LENGTHS = [2, 2, 5, 10]


def episodes() -> list[list[dict[str, float]]]:
    runs = []
    for outcome, length in zip(OUTCOMES, LENGTHS, strict=True):
        turns = [{OUTCOME: 0.0, "format": 0.3} for _ in range(length)]
        turns[-1][OUTCOME] = outcome
        runs.append(turns)
    return runs


def totals(*gates: Gate) -> list[float]:
    scheme = Scheme({OUTCOME: 1.0, "format": 1.0}, gates)
    return [scheme.total(turns) for turns in episodes()]


def test_direct_accumulation_pays_most_for_stalling():
    assert totals() == pytest.approx([1.6, 0.6, 1.0, 2.0])


def test_a_gate_takes_the_shaping_from_those_below_it():
    assert totals(Gate(OUTCOME, 0.0, ("format",))) == pytest.approx([1.6, 0.6, -0.5, -1.0])


def test_a_strict_gate_needs_more():
    assert totals(Gate(OUTCOME, 0.0, ("format",), strict=True)) == pytest.approx([1.6, 0.0, -0.5, -1.0])


def test_a_gate_that_never_opens_leaves_the_outcome():
    assert totals(Gate(OUTCOME, math.inf, ("format",))) == OUTCOMES


def test_a_gate_that_is_always_open_is_no_gate():
    assert totals(Gate(OUTCOME, -math.inf, ("format",))) == totals()


def test_gates_chain_and_act_turn_by_turn():
    scheme = Scheme(
        {"format": 1.0, "scaffold": 1.0},
        (
            Gate(OUTCOME, 1.0, ("format", "scaffold")),
            Gate("format", 0.1, ("scaffold",), scope="turn"),
        ),
    )
    turns = [{"format": f, "scaffold": 0.2, OUTCOME: o} for f, o in ((0.1, 0.0), (0.1, 0.0), (0.0, 1.0))]
    assert scheme.turn_rewards(turns) == pytest.approx([0.3, 0.3, 0.0])
    turns[-1][OUTCOME] = 0.0
    assert scheme.turn_rewards(turns) == [0.0, 0.0, 0.0]


def test_a_gate_on_the_past_opens_after_the_event():
    scheme = Scheme({OUTCOME: 1.0}, (Gate("format", 1.0, (OUTCOME,), scope="past"),))
    same_turn = [{"format": 0.0, OUTCOME: 0.0}, {"format": 1.0, OUTCOME: 1.0}]
    before = [{"format": 1.0, OUTCOME: 0.0}, {"format": 0.0, OUTCOME: 1.0}]
    assert (scheme.total(same_turn), scheme.total(before)) == (0.0, 1.0)


def test_averaged_channels_pay_no_more_for_more_turns():
    scheme = Scheme({OUTCOME: 1.0, "format": 0.3}, averaged=averaging(CHANNELS))
    short, long = [{"format": 1.0}] * 2, [{"format": 1.0}] * 20
    assert scheme.total(short) == pytest.approx(scheme.total(long)) == pytest.approx(0.3)


def test_channels_without_a_weight_are_not_paid():
    assert Scheme({OUTCOME: 1.0}).total([{OUTCOME: 0.5, "format": 1.0, "partial": 1.0}]) == 0.5


def test_gating_leaves_the_raw_values_alone():
    turns = [{OUTCOME: 0.0, "format": 1.0}]
    Scheme({OUTCOME: 1.0, "format": 0.1}, (Gate(OUTCOME, 1.0, ("format",)),)).gated(turns)
    assert turns == [{OUTCOME: 0.0, "format": 1.0}]


values = st.floats(-1, 1, allow_nan=False)
turns_strategy = st.lists(st.fixed_dictionaries(dict.fromkeys(CHANNELS, values)), min_size=1, max_size=8)
gates_strategy = st.lists(
    st.builds(
        Gate,
        on=st.sampled_from(sorted(CHANNELS)),
        at_least=values,
        opens=st.lists(st.sampled_from(sorted(CHANNELS)), min_size=1, max_size=3, unique=True).map(tuple),
        scope=st.sampled_from(["trajectory", "turn", "past"]),
        strict=st.booleans(),
    ),
    max_size=3,
).map(tuple)
schemes = st.builds(
    Scheme,
    weights=st.dictionaries(st.sampled_from(sorted(CHANNELS)), values, min_size=1),
    gates=gates_strategy,
    averaged=st.frozensets(st.sampled_from(sorted(CHANNELS))),
)


@given(schemes, turns_strategy)
def test_payments_add_up_to_the_total(scheme: Scheme, turns: list[dict[str, float]]):
    paid = sum(scheme.pay(turns[: end + 1]) for end in range(len(turns)))
    told = 0.0
    for end in range(len(turns)):
        told += scheme.pay(turns[: end + 1], told)
    assert paid == pytest.approx(scheme.total(turns), abs=1e-9)
    assert sum(scheme.turn_rewards(turns)) == pytest.approx(scheme.total(turns), abs=1e-9)


CLOSED = Gate(OUTCOME, 1.0, ("format", "scaffold"))


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(),
        Scheme({OUTCOME: 1.0, "format": 0.5, "scaffold": 0.5}, (CLOSED,)),
        Scheme({OUTCOME: 1.0, "format": 0.9}, averaged=frozenset({"format"})),
        Scheme({OUTCOME: 1.0, "partial": 0.9}),
        Scheme({OUTCOME: 1.0, "format": 0.09}),
    ],
)
def test_sound_schemes_pass_the_lint(scheme: Scheme):
    assert lint(scheme, CHANNELS, max_turns=10) == []


@pytest.mark.parametrize(
    ("scheme", "word"),
    [
        (Scheme({OUTCOME: 1.0, "format": 0.1}), "a failed episode can earn 1 and a solved one as little as 1"),
        (Scheme({OUTCOME: 1.0, "partial": 1.0}), "a failed episode can earn 1"),
        (Scheme({OUTCOME: 1.0, "format": 0.5}, (Gate("partial", 1.0, ("format",)),)), "a failed episode can earn 5"),
        (Scheme({OUTCOME: 1.0, "format": 0.5}, (Gate(OUTCOME, -1.0, ("format",)),)), "a failed episode can earn 5"),
        (Scheme({OUTCOME: 1.0, "format": 0.5}, (Gate(OUTCOME, 1.0, ("format",), "turn"),)), "a failed episode"),
        (Scheme({OUTCOME: 1.0, "format": -0.5}), "and a solved one as little as -4"),
        (Scheme({OUTCOME: -1.0}), "a failed episode can earn 1 and a solved one as little as -1"),
        (
            Scheme(gates=(Gate("format", 1.0, (OUTCOME,)),)),
            "a failed episode can earn 0 and a solved one as little as 0",
        ),
        (Scheme({OUTCOME: 0.0}), "a failed episode can earn 0 and a solved one as little as 0"),
        (Scheme({"format": 1.0}), "the scheme gives 'outcome' no weight"),
        (Scheme({OUTCOME: 1.0, "format": 11.0}, (CLOSED,)), "weight of 'format' (11) is more than ten times"),
        (Scheme({OUTCOME: 1.0, "fromat": 1.0}), "unknown channels ['fromat']"),
        (Scheme(gates=(Gate("outcom", 1.0, ("format",)),)), "unknown channels ['outcom']"),
        (Scheme(gates=(Gate(OUTCOME, 1.0, ("fmt",)),)), "unknown channels ['fmt']"),
        (Scheme(averaged=frozenset({"fmt"})), "unknown channels ['fmt']"),
    ],
)
def test_unsound_schemes_are_told_what_is_wrong(scheme: Scheme, word: str):
    assert word in " ".join(lint(scheme, CHANNELS, max_turns=10))


def test_an_unsound_scheme_is_refused_unless_it_says_so():
    weights = {OUTCOME: 1.0, "format": 1.0}
    with pytest.raises(UsageError, match=r"unsound reward scheme: .* allow_unsound=True"):
        check_scheme(Scheme(weights), CHANNELS, 10)
    check_scheme(Scheme(weights, allow_unsound=True), CHANNELS, 10)


sound_values = {
    OUTCOME: st.sampled_from([-1.0, -0.5, 0.0]),
    "format": st.floats(0, 1),
    "scaffold": st.floats(0, 1),
}


SHAPING = ("format", "scaffold", "partial")
modest = st.builds(
    Scheme,
    weights=st.fixed_dictionaries(
        {OUTCOME: st.floats(0.5, 2.0)},
        optional={name: st.floats(-0.3, 0.5) for name in ("format", "scaffold", "partial")},
    ),
    gates=gates_strategy | st.just((CLOSED,)),
    averaged=st.frozensets(st.sampled_from(SHAPING)),
)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    modest.filter(lambda scheme: not lint(scheme, CHANNELS, 6)),
    st.lists(st.fixed_dictionaries(sound_values), min_size=1, max_size=6),
    st.lists(st.fixed_dictionaries(sound_values), min_size=1, max_size=6),
)
def test_what_passes_the_lint_never_pays_a_failure_as_much_as_a_success(
    scheme: Scheme, wrong: list[dict[str, float]], right: list[dict[str, float]]
):
    for turn in (*wrong[:-1], *right[:-1]):
        turn[OUTCOME] = 0.0
    right[-1][OUTCOME] = 1.0
    assert scheme.total(wrong) < scheme.total(right)


def test_a_channel_that_is_always_paid_favours_long_failures():
    channels = CHANNELS | {"format": Channel("always 1", 1.0, 1.0, per_turn=True)}
    assert "a failed episode can earn 5" in " ".join(
        lint(Scheme({OUTCOME: 1.0, "format": 0.5}), channels, max_turns=10)
    )
