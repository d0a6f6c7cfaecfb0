"""The lint of reward schemes: it refuses unsound ones, and sound ones never pay a failure like a success."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.base.errors import UsageError
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme, check_scheme, lint
from tests.core.test_rewards import gates as any_gates
from tests.refusals import differing

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
CHEAP, FAILED, SOONER, HEAVY = "'ran' is cheap", "a failed episode can earn", "ending sooner", "more than ten times"
MEAN: dict[str, Any] = {"averaged": frozenset({"found"})}

Case = tuple[dict[str, float], tuple[Gate, ...], int, dict[str, Any]]


def problems(case: Case) -> str:
    weights, gates, turns, settings = case
    return " ".join(lint(Scheme({OUTCOME: 1.0} | weights, gates, **settings), CHANNELS, turns))


def case(weights: dict[str, float], *gates: Gate, turns: int = 5, **settings: Any) -> Case:
    return weights, gates, turns, settings


SOUND: dict[str, list[Case]] = {
    CHEAP: [
        case({"ran": 0.05}, SOLVED),
        case({"ran": 0.05}, Gate("progress", 0.5, ("ran",))),
        case({"ran": 0.05}, Gate("progress", 0.0, ("ran",), strict=True)),
        case({"ran": 0.05}, Gate("progress", 0.5, ("valid",)), Gate("valid", 0.5, ("ran",))),
        case({"ran": 0.05}, Gate("started", 1.5, ("ran",))),
        case({"ran": 0.05}, Gate("started", 0.5, ("ran",), scope="turn")),
        case({"ran": 0.05}, Gate("found", 0.5, ("ran",), scope="past")),
        case({"ran": 0.05}, Gate("balance", 0.1, ("ran",))),
        case({"ran": -0.05}),
    ],
    SOONER: [
        case({"found": -0.1}, **MEAN),
        case({"found": 0.1}, Gate(OUTCOME, 1.0, ("found",)), **MEAN),
        case({"found": 0.1}, Gate(OUTCOME, 0.0, ("found",), strict=True), **MEAN),
    ],
    FAILED: [
        case({"found": 0.19}),
        case({"found": 0.9}, turns=50, capped={"found": 1.0}),
        case({"progress": 0.9}, turns=50),
        case({"wait": -0.19}),
        case({"wait": -0.9}, averaged=frozenset({"wait"})),
        case({"progress": 0.5, "wait": -0.09}),
        case({"started": 0.1}),  # a solved episode has at least 0.1 * 0.2 of it, a failed one at most 0.5
        case({"fine": 0.4}, Gate("progress", 0.5, ("fine",), strict=True)),
        case({"balance": 0.9}, Gate(OUTCOME, 1.0, ("balance",)), averaged=frozenset({"balance"})),
        case({"progress": 5.0, "wait": -0.5}, in_full=frozenset({"progress", "wait"})),
        case({}),
    ],
    HEAVY: [case({"progress": 10.0}, Gate(OUTCOME, 1.0, ("progress",)))],
    "must be above 0": [case({"found": 0.1}, capped={"found": 0.01})],
    "both averaged and capped": [
        case({"found": 0.1, "wait": -0.1}, averaged=frozenset({"wait"}), capped={"found": 1.0})
    ],
}
UNSOUND: dict[str, list[Case]] = {
    CHEAP: [
        case({"ran": 0.05}),
        case({"ran": 0.05}, Gate("progress", 0.0, ("ran",))),
        case({"ran": 0.05}, Gate("progress", -1.0, ("ran",), strict=True)),
        case({"ran": 0.05}, Gate("progress", 0.5, ("valid",))),
        case({"ran": 0.05}, Gate("valid", 0.5, ("ran",))),
        case({"ran": 0.05}, Gate("valid", 0.5, ("ran",)), Gate("progress", 0.5, ("valid",))),
        case({"ran": 0.05}, Gate("ran", 0.5, ("valid",)), Gate("valid", 0.5, ("ran",))),
        case({"ran": 0.05}, Gate("started", 0.5, ("ran",))),  # five turns at rest are worth 1
        case({"ran": 0.05}, Gate("started", 0.2, ("ran",), scope="turn")),
        case({"ran": 0.05}, Gate("balance", 0.0, ("ran",))),  # idling loses nothing
    ],
    SOONER: [
        case({"found": 0.1}, **MEAN),
        case({"progress": 0.1}, averaged=frozenset({"progress"})),
        case({"found": 0.1}, Gate(OUTCOME, 0.0, ("found",)), **MEAN),
        case({"found": 0.1}, Gate(OUTCOME, 1.0, ("found",), scope="turn"), **MEAN),
        case({"found": 0.1}, Gate("progress", 1.0, ("found",)), **MEAN),
        case({"found": 0.1}, SOLVED, **MEAN),
    ],
    FAILED: [
        case({"found": 0.2}),
        case({"found": 0.19}, turns=6),
        case({"found": 0.9}, turns=50, capped={"found": 1.2}),
        case({"progress": 1.0}, turns=50),
        case({"wait": -0.2}),
        case({"wait": -1.0}, averaged=frozenset({"wait"})),
        case({"progress": 0.5, "wait": -0.1}),
        case({"started": 0.21}),
        case({"fine": 0.5}, Gate("progress", 0.5, ("fine",), strict=True)),
        case({"balance": 1.1}, Gate(OUTCOME, 1.0, ("balance",)), averaged=frozenset({"balance"})),
        case({OUTCOME: -1.0}),
        case({OUTCOME: 0.0}),
        case({}, Gate("found", 1.0, (OUTCOME,))),
        case({"found": 0.5}, Gate("progress", 1.0, ("found",))),
        case({"found": 0.5}, Gate(OUTCOME, 0.0, ("found",))),
        case({"found": 0.5}, Gate(OUTCOME, 1.0, ("found",), scope="turn")),
    ],
    HEAVY: [
        case({"progress": 10.1}, Gate(OUTCOME, 1.0, ("progress",))),
        case({"progress": -10.1}, Gate(OUTCOME, 1.0, ("progress",))),
    ],
    "must be above 0": [case({"found": 0.1}, capped={"found": cap}) for cap in (0.0, -1.0, float("nan"))],
    "both averaged and capped": [case({"found": 0.1}, averaged=frozenset({"found"}), capped={"found": 1.0})],
    "both averaged and in_full": [
        case({"found": 0.1}, Gate(OUTCOME, 1.0, ("found",)), in_full=frozenset({"found"}), **MEAN)
    ],
    "unknown channels ['fnd']": [
        case({"fnd": 1.0}),
        case({}, Gate("fnd", 1.0, ("found",))),
        case({}, Gate(OUTCOME, 1.0, ("fnd",))),
        case({}, averaged=frozenset({"fnd"})),
        case({}, capped={"fnd": 1.0}),
    ],
}


@pytest.mark.parametrize("problem", UNSOUND)
def test_unsound_schemes_are_distinguished_from_sound_ones_at_the_bound(problem: str):
    rows = [(sound, False) for sound in SOUND.get(problem, ())] + [(unsound, True) for unsound in UNSOUND[problem]]
    assert differing(lambda case: problem in problems(case), rows) == []


def test_the_lint_reports_the_possible_rewards():
    assert "a failed episode can earn 2.5 and a solved one as little as 1" in problems(case({"found": 0.5}))
    assert "a failed episode can earn 0 and a solved one as little as -1.5" in problems(case({"wait": -0.5}))
    assert "weight of 'progress' (11)" in problems(case({"progress": 11.0}, Gate(OUTCOME, 1.0, ("progress",))))
    assert "gives 'outcome' no weight" in " ".join(lint(Scheme({"found": 1.0}), CHANNELS, 5))
    always = CHANNELS | {"found": Channel("always 1", 1.0, 1.0, per_turn=True)}
    assert "a failed episode can earn 2.5" in " ".join(lint(Scheme({OUTCOME: 1.0, "found": 0.5}), always, 5))


def test_an_unsound_scheme_is_refused_unless_allowed():
    weights = {OUTCOME: 1.0, "found": 1.0}
    with pytest.raises(UsageError, match="allow_unsound=True"):
        check_scheme(Scheme(weights), CHANNELS, 10)
    check_scheme(Scheme(weights, allow_unsound=True), CHANNELS, 10)


# Any scheme that passes.

SHAPING = ("format", "scaffold", "partial")
PER_TURN = {
    OUTCOME: Channel("solved", -1.0, 1.0),
    "format": Channel("readable", per_turn=True),
    "scaffold": Channel("valid call", per_turn=True),
    "partial": Channel("how near"),
}
LEGAL = PER_TURN | {name: Channel(name, per_turn=True, cheap=True) for name in ("format", "scaffold")}
PATIENT = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])

schemes = st.builds(
    Scheme,
    weights=st.fixed_dictionaries(
        {OUTCOME: st.floats(0.5, 2.0)}, optional={name: st.floats(-0.3, 0.5) for name in SHAPING}
    ),
    gates=any_gates | st.just((Gate(OUTCOME, 1.0, ("format", "scaffold")),)),
    averaged=st.frozensets(st.sampled_from(SHAPING)),
    capped=st.dictionaries(st.sampled_from(SHAPING), st.floats(0.1, 2), max_size=1),
)
passing = schemes.filter(lambda scheme: not lint(scheme, PER_TURN, 6))
shaping = {"format": st.floats(0, 1), "scaffold": st.floats(0, 1)}
failing_turns = st.lists(
    st.fixed_dictionaries({OUTCOME: st.sampled_from([-1.0, -0.5, 0.0]), **shaping}), min_size=1, max_size=6
)


@PATIENT
@given(passing, failing_turns, failing_turns)
def test_a_sound_scheme_pays_failures_less_and_not_for_ending_sooner(
    scheme: Scheme, wrong: list[dict[str, float]], right: list[dict[str, float]]
):
    assert scheme.total(wrong[:5]) <= scheme.total([*wrong[:5], {}]) + 1e-9
    for turn in (*wrong[:-1], *right[:-1]):
        turn[OUTCOME] = 0.0
    right[-1][OUTCOME] = 1.0
    assert scheme.total(wrong) < scheme.total(right)


@PATIENT
@given(
    schemes.filter(lambda scheme: not lint(scheme, LEGAL, 6)),
    st.lists(st.fixed_dictionaries(shaping), min_size=1, max_size=6),
)
def test_a_sound_scheme_pays_nothing_without_real_work(scheme: Scheme, turns: list[dict[str, float]]):
    assert scheme.total(turns) <= 0.0
