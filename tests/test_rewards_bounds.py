"""Where the lint of schemes changes its mind, and what caps and means pay to the last digit."""

from __future__ import annotations

import pytest

from agentgym.rewards import OUTCOME, Channel, Gate, Scheme, lint

CHANNELS = {
    OUTCOME: Channel("solved"),
    "ran": Channel("ran", per_turn=True, cheap=True),
    "valid": Channel("valid", cheap=True),
    "progress": Channel("how near"),
    "found": Channel("something found", per_turn=True),
    "wait": Channel("time lost", per_turn=True),
    "started": Channel("never nothing", 0.2, 1.0, per_turn=True),
    "balance": Channel("gained or lost", -1.0, 1.0),
    "fine": Channel("never less than a fine", -2.0, -1.0),
}
SOLVED = Gate(OUTCOME, 1.0, ("ran",))


def problems(weights: dict[str, float], *gates: Gate, turns: int = 5, **settings: object) -> list[str]:
    return lint(Scheme({OUTCOME: 1.0, **weights}, gates, **settings), CHANNELS, turns)  # type: ignore[arg-type]


def complains(found: list[str], of: str) -> bool:
    return any(of in problem for problem in found)


# Pay.


def test_a_capped_channel_pays_until_its_cap_is_reached_and_no_more():
    scheme = Scheme({OUTCOME: 1.0, "found": 0.5}, capped={"found": 1.0})
    turns = [{OUTCOME: 0.0, "found": value} for value in (0.6, 0.0, 0.6, 0.6)]
    assert scheme.turn_rewards(turns) == pytest.approx([0.3, 0.0, 0.2, 0.0])
    assert scheme.total(turns) == pytest.approx(0.5)
    assert [scheme.pay(turns[: end + 1]) for end in range(4)] == pytest.approx([0.3, 0.0, 0.2, 0.0])


def test_a_cap_counts_what_gates_have_left():
    gate = Gate("progress", 1.0, ("found",), scope="turn")
    scheme = Scheme({"found": 1.0}, (gate,), capped={"found": 1.0})
    turns = [{"found": 0.8, "progress": 0.0}, {"found": 0.8, "progress": 1.0}, {"found": 0.8, "progress": 1.0}]
    assert scheme.turn_rewards(turns) == pytest.approx([0.0, 0.8, 0.2])
    assert scheme.total(turns) == pytest.approx(1.0)


@pytest.mark.parametrize("scope", ["trajectory", "turn", "past"])
def test_a_channel_that_no_turn_has_opens_no_gate(scope: str):
    scheme = Scheme({"found": 1.0}, (Gate("progress", 0.5, ("found",), scope=scope),))  # type: ignore[arg-type]
    turns = [{"found": 0.8}, {"found": 0.8}]
    assert scheme.turn_rewards(turns) == [0.0, 0.0]
    assert scheme.total(turns) == 0.0


def test_a_cap_on_what_is_not_paid_changes_nothing():
    turns = [{OUTCOME: 1.0, "found": 3.0}]
    assert Scheme({OUTCOME: 1.0}, capped={"found": 1.0}).total(turns) == 1.0


def test_a_mean_is_over_all_turns_also_those_without_the_channel():
    scheme = Scheme({OUTCOME: 1.0, "wait": -1.0}, averaged=frozenset({"wait"}))
    turns = [{"wait": 1.0}, {}, {}, {OUTCOME: 1.0}]
    assert scheme.total(turns) == pytest.approx(0.75)
    assert scheme.turn_rewards(turns) == pytest.approx([-0.25, 0.0, 0.0, 1.0])


def test_an_episode_without_turns_earns_nothing():
    for scheme in (Scheme(), Scheme({OUTCOME: 1.0, "wait": -1.0}, averaged=frozenset({"wait"}))):
        assert scheme.total([]) == 0.0
        assert scheme.turn_rewards([]) == []


def test_only_a_scheme_of_plain_weights_pays_each_turn_by_itself():
    assert Scheme({OUTCOME: 1.0, "found": 0.1}).is_simple
    assert not Scheme(gates=(SOLVED,)).is_simple
    assert not Scheme(averaged=frozenset({"ran"})).is_simple
    assert not Scheme(capped={"found": 1.0}).is_simple
    assert Scheme({OUTCOME: 2.0, "found": 0.1}).pay([{OUTCOME: 1.0}, {OUTCOME: 0.5, "found": 1.0}]) == 1.1


def test_the_control_of_a_scheme_is_the_same_without_its_gates():
    scheme = Scheme({OUTCOME: 1.0, "ran": 0.1}, (SOLVED,), averaged=frozenset({"ran"}))
    control = scheme.ungated()
    assert (control.weights, control.averaged, control.gates) == (scheme.weights, scheme.averaged, ())
    assert control.allow_unsound
    assert not scheme.allow_unsound
    assert (scheme.total([{"ran": 1.0}]), control.total([{"ran": 1.0}])) == (0.0, 0.1)
    assert scheme.without("ran").weights == {OUTCOME: 1.0}
    assert scheme.without("ran").gates == scheme.gates


# What can be gained.


@pytest.mark.parametrize(
    ("low", "high", "weight", "gains"),
    [(0, 1, 0.1, True), (0, 1, -0.1, False), (-1, 0, 0.1, False), (-1, 0, -0.1, True), (0, 1, 0.0, False)],
)
def test_a_channel_gains_where_some_value_is_worth_more_than_nothing(
    low: float, high: float, weight: float, gains: bool
):
    assert Channel("?", low, high).can_gain(weight) is gains


@pytest.mark.parametrize(
    ("strict", "shut"), [(False, {0.4: True, 0.5: False, 0.6: False}), (True, {0.4: True, 0.5: True, 0.6: False})]
)
def test_a_gate_is_shut_where_its_value_cannot_open_it(strict: bool, shut: dict[float, bool]):
    gate = Gate(OUTCOME, 0.5, ("ran",), strict=strict)
    assert {value: gate.is_shut_below(value) for value in shut} == shut
    assert {value: not gate.is_open([value], 0) for value in shut} == shut


# Cheap channels.


@pytest.mark.parametrize(
    ("gates", "sound"),
    [
        ((), False),
        ((Gate(OUTCOME, 1.0, ("ran",)),), True),
        ((Gate("progress", 0.5, ("ran",)),), True),
        ((Gate("progress", 0.0, ("ran",)),), False),
        ((Gate("progress", 0.0, ("ran",), strict=True),), True),
        ((Gate("progress", 0.5, ("valid",)),), False),
        ((Gate("valid", 0.5, ("ran",)),), False),
        ((Gate("progress", 0.5, ("valid",)), Gate("valid", 0.5, ("ran",))), True),
        ((Gate("valid", 0.5, ("ran",)), Gate("progress", 0.5, ("valid",))), False),
        ((Gate("started", 0.5, ("ran",)),), False),  # five turns at rest are worth 1
        ((Gate("started", 1.5, ("ran",)),), True),
        ((Gate("started", 0.2, ("ran",), scope="turn"),), False),
        ((Gate("started", 0.5, ("ran",), scope="turn"),), True),
        ((Gate("found", 0.5, ("ran",), scope="past"),), True),
        ((Gate("balance", 0.0, ("ran",)),), False),  # who does nothing loses nothing
        ((Gate("balance", 0.1, ("ran",)),), True),
    ],
)
def test_a_cheap_channel_needs_a_gate_that_only_real_work_opens(gates: tuple[Gate, ...], sound: bool):
    assert complains(problems({"ran": 0.05}, *gates), "'ran' is cheap") is not sound


def test_a_cheap_cost_needs_no_gate():
    assert not complains(problems({"ran": -0.05}), "cheap")


# Means.


@pytest.mark.parametrize(
    ("weight", "gates", "sound"),
    [
        (0.1, (), False),
        (-0.1, (), True),
        (0.1, (Gate(OUTCOME, 1.0, ("found",)),), True),
        (0.1, (Gate(OUTCOME, 0.0, ("found",)),), False),
        (0.1, (Gate(OUTCOME, 0.0, ("found",), strict=True),), True),
        (0.1, (Gate(OUTCOME, 1.0, ("found",), scope="turn"),), False),
        (0.1, (Gate("progress", 1.0, ("found",)),), False),
        (0.1, (Gate(OUTCOME, 1.0, ("ran",)),), False),
    ],
)
def test_a_mean_may_pay_only_those_who_solve(weight: float, gates: tuple[Gate, ...], sound: bool):
    found = problems({"found": weight}, *gates, averaged=frozenset({"found"}))
    assert complains(found, "ending sooner") is not sound


# Sums, caps and weights.


@pytest.mark.parametrize(
    ("weights", "turns", "settings", "sound"),
    [
        ({"found": 0.19}, 5, {}, True),
        ({"found": 0.2}, 5, {}, False),
        ({"found": 0.19}, 6, {}, False),
        ({"found": 0.9}, 50, {"capped": {"found": 1.0}}, True),
        ({"found": 0.9}, 50, {"capped": {"found": 1.2}}, False),
        ({"progress": 0.9}, 50, {}, True),
        ({"progress": 1.0}, 50, {}, False),
        ({"wait": -0.19}, 5, {}, True),
        ({"wait": -0.2}, 5, {}, False),
        ({"wait": -0.9}, 5, {"averaged": frozenset({"wait"})}, True),
        ({"wait": -1.0}, 5, {"averaged": frozenset({"wait"})}, False),
        ({"progress": 0.5, "wait": -0.09}, 5, {}, True),
        ({"progress": 0.5, "wait": -0.1}, 5, {}, False),
        ({"started": 0.1}, 5, {}, True),  # a solved episode has at least 0.1 * 0.2 of it, a failed one at most 0.5
        ({"started": 0.21}, 5, {}, False),
    ],
)
def test_no_failure_may_earn_as_much_as_a_success(
    weights: dict[str, float], turns: int, settings: dict[str, object], sound: bool
):
    assert complains(problems(weights, turns=turns, **settings), "a failed episode can earn") is not sound


def test_a_failure_behind_whose_gate_a_fine_is_left_out_may_not_earn_more_than_a_success_that_pays_it():
    gate = Gate("progress", 0.5, ("fine",), strict=True)
    assert complains(problems({"fine": 0.5}, gate), "a failed episode can earn")
    assert not complains(problems({"fine": 0.4}, gate), "a failed episode can earn")


def test_what_counts_once_counts_at_most_once_in_a_mean_too():
    settings = {"averaged": frozenset({"balance"})}
    gate = Gate(OUTCOME, 1.0, ("balance",))
    assert not complains(problems({"balance": 0.9}, gate, turns=5, **settings), "a failed episode can earn")
    assert complains(problems({"balance": 1.1}, gate, turns=5, **settings), "a failed episode can earn")


def test_what_a_shut_gate_keeps_from_failures_may_weigh_up_to_ten_times_the_outcome():
    gate = Gate(OUTCOME, 1.0, ("progress",))
    assert problems({"progress": 10.0}, gate) == []
    assert complains(problems({"progress": 10.1}, gate), "more than ten times")
    assert complains(problems({"progress": -10.1}, gate), "more than ten times")


@pytest.mark.parametrize(("cap", "sound"), [(0.01, True), (0.0, False), (-1.0, False), (float("nan"), False)])
def test_a_cap_lies_above_nothing(cap: float, sound: bool):
    assert complains(problems({"found": 0.1}, capped={"found": cap}), "must be above 0") is not sound


def test_a_channel_is_averaged_or_capped_and_not_both():
    found = problems({"found": 0.1}, averaged=frozenset({"found"}), capped={"found": 1.0})
    assert complains(found, "both averaged and capped")
    found = problems({"found": 0.1, "wait": -0.1}, averaged=frozenset({"wait"}), capped={"found": 1.0})
    assert not complains(found, "both averaged and capped")
