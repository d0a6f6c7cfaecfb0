"""Reward schemes: gates act first, payments add up, and unsound schemes are refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.rewards import OUTCOME, Channel, Gate, Scheme, check_scheme, lint

CHANNELS = {
    OUTCOME: Channel("solved", -1.0, 1.0),
    "format": Channel("readable", per_turn=True),
    "scaffold": Channel("valid call", per_turn=True),
    "partial": Channel("how near"),
}
CHEAP = CHANNELS | {
    "format": Channel("readable", per_turn=True, cheap=True),
    "scaffold": Channel("valid call", per_turn=True, cheap=True),
    "late": Channel("has a value from the start", low=0.25),
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
    scheme = Scheme({OUTCOME: 1.0, "format": 0.3}, averaged=frozenset({"format"}))
    short, long = [{"format": 1.0}] * 2, [{"format": 1.0}] * 20
    assert scheme.total(short) == pytest.approx(scheme.total(long)) == pytest.approx(0.3)


def test_a_capped_channel_pays_its_sum_once_it_is_earned_and_no_more_than_the_cap():
    scheme = Scheme({OUTCOME: 1.0, "scaffold": 0.5}, capped={"scaffold": 1.0})
    turns = [{"scaffold": value} for value in (0.0, 0.75, 0.75, 0.75, 0.0)]
    assert scheme.turn_rewards(turns) == pytest.approx([0.0, 0.375, 0.125, 0.0, 0.0])
    assert scheme.total(turns) == pytest.approx(0.5)
    assert [scheme.pay(turns[: end + 1]) for end in range(5)] == pytest.approx([0.0, 0.375, 0.125, 0.0, 0.0])


def test_a_cap_counts_what_the_gates_leave():
    gate = Gate("partial", 1.0, ("scaffold",), scope="turn")
    scheme = Scheme({"scaffold": 1.0}, (gate,), capped={"scaffold": 1.0})
    turns = [{"scaffold": 1.0, "partial": 0.0}, {"scaffold": 0.75, "partial": 1.0}]
    assert scheme.turn_rewards(turns) == [0.0, 0.75]


def test_the_ungated_control_pays_the_same_channels_without_gates():
    gated = Scheme({OUTCOME: 1.0, "format": 1.0}, (Gate(OUTCOME, 1.0, ("format",)),))
    assert [gated.ungated().total(turns) for turns in episodes()] == pytest.approx(totals())
    assert gated.ungated().allow_unsound


def test_a_channel_left_unpaid_still_opens_its_gates():
    scheme = Scheme({OUTCOME: 1.0, "format": 1.0}, (Gate(OUTCOME, 1.0, ("format",)),)).without(OUTCOME)
    assert [scheme.total(turns) for turns in episodes()] == pytest.approx([0.6, 0.0, 0.0, 0.0])


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
    capped=st.dictionaries(st.sampled_from(sorted(CHANNELS)), st.floats(0.1, 2)),
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
        Scheme({OUTCOME: 1.0, "format": 0.9}, capped={"format": 1.0}),
        Scheme({OUTCOME: 1.0, "format": 0.9}, (CLOSED,), frozenset({"format"})),
        Scheme({OUTCOME: 1.0, "format": -0.9}, averaged=frozenset({"format"})),
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
        (Scheme(capped={"fmt": 1.0}), "unknown channels ['fmt']"),
        (Scheme({OUTCOME: 1.0, "format": 0.2}, capped={"format": 5.0}), "a failed episode can earn 1"),
        (Scheme(averaged=frozenset({"format"}), capped={"format": 1.0}), "both averaged and capped"),
        (Scheme(capped={"format": 0.0}), "the cap of 'format' is 0.0; it must be above 0"),
    ],
)
def test_unsound_schemes_are_told_what_is_wrong(scheme: Scheme, word: str):
    assert word in " ".join(lint(scheme, CHANNELS, max_turns=10))


def test_an_unsound_scheme_is_refused_unless_it_says_so():
    weights = {OUTCOME: 1.0, "format": 1.0}
    with pytest.raises(UsageError, match=r"unsound reward scheme: .* allow_unsound=True"):
        check_scheme(Scheme(weights), CHANNELS, 10)
    check_scheme(Scheme(weights, allow_unsound=True), CHANNELS, 10)


PARTIAL_GATE = Gate("partial", 0.0, ("format",), strict=True)


@pytest.mark.parametrize(
    "gates",
    [
        (PARTIAL_GATE,),
        (Gate("partial", 0.5, ("format",)),),
        (Gate("partial", 0.5, ("scaffold",)), Gate("scaffold", 0.5, ("format",))),
        (Gate("partial", 0.5, ("format",), scope="past"),),
        (Gate("late", 0.5, ("format",)),),
    ],
)
def test_cheap_pay_behind_a_gate_on_real_work_is_sound(gates: tuple[Gate, ...]):
    assert lint(Scheme({OUTCOME: 1.0, "format": 0.05}, gates), CHEAP, max_turns=10) == []


@pytest.mark.parametrize(
    "gates",
    [
        (),
        (Gate("partial", 0.0, ("format",)),),
        (Gate("partial", -1.0, ("format",), strict=True),),
        (Gate(OUTCOME, -0.5, ("format",)),),
        (Gate("scaffold", 1.0, ("format",)),),
        (Gate("scaffold", 0.5, ("format",)), Gate("partial", 0.5, ("scaffold",))),
        (Gate("format", 0.5, ("scaffold",)), Gate("scaffold", 0.5, ("format",))),
        (Gate("late", 0.25, ("format",)),),
        (Gate("partial", 0.5, ("scaffold",)),),
    ],
)
def test_cheap_pay_without_a_gate_on_real_work_is_refused(gates: tuple[Gate, ...]):
    [problem] = lint(Scheme({OUTCOME: 1.0, "format": 0.05}, gates), CHEAP, max_turns=10)
    assert problem.startswith("'format' is cheap, as any legal action earns it, yet it pays without real work")


def test_what_a_cheap_channel_costs_needs_no_gate():
    assert lint(Scheme({OUTCOME: 1.0, "format": -0.05}), CHEAP, max_turns=10) == []


def test_a_gate_on_a_sum_that_grows_by_itself_is_no_gate_on_work():
    channels = CHEAP | {"late": replace(CHEAP["late"], per_turn=True)}
    gates = (Gate("late", 2.0, ("format",)),)
    assert "cheap" in " ".join(lint(Scheme({OUTCOME: 1.0, "format": 0.05}, gates), channels, max_turns=10))
    assert lint(Scheme({OUTCOME: 1.0, "format": 0.05}, gates), channels, max_turns=7) == []


@pytest.mark.parametrize("gates", [(), (PARTIAL_GATE,), (Gate(OUTCOME, 0.0, ("format",)),)])
@pytest.mark.parametrize("per_turn", [True, False])
def test_averaged_gains_of_failed_episodes_are_refused(gates: tuple[Gate, ...], per_turn: bool):
    channels = CHANNELS | {"format": Channel("readable", per_turn=per_turn)}
    scheme = Scheme({OUTCOME: 1.0, "format": 0.1}, gates, frozenset({"format"}))
    assert "'format' pays its mean over the turns" in " ".join(lint(scheme, channels, max_turns=10))


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
    capped=st.dictionaries(st.sampled_from(SHAPING), st.floats(0.1, 2), max_size=1),
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


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    modest.filter(lambda scheme: not lint(scheme, CHEAP, 6)),
    st.lists(st.fixed_dictionaries({"format": st.floats(0, 1), "scaffold": st.floats(0, 1)}), min_size=1, max_size=6),
)
def test_what_passes_the_lint_pays_nothing_to_an_episode_without_real_work(
    scheme: Scheme, turns: list[dict[str, float]]
):
    assert scheme.total(turns) <= 0.0


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    modest.filter(lambda scheme: not lint(scheme, CHANNELS, 6)),
    st.lists(st.fixed_dictionaries(sound_values), min_size=1, max_size=5),
)
def test_what_passes_the_lint_never_pays_a_failure_more_for_ending_sooner(
    scheme: Scheme, turns: list[dict[str, float]]
):
    assert scheme.total(turns) <= scheme.total([*turns, {}]) + 1e-9


def test_a_channel_that_is_always_paid_favours_long_failures():
    channels = CHANNELS | {"format": Channel("always 1", 1.0, 1.0, per_turn=True)}
    assert "a failed episode can earn 5" in " ".join(
        lint(Scheme({OUTCOME: 1.0, "format": 0.5}), channels, max_turns=10)
    )
