"""The reward schemes and figures of search episodes."""

from __future__ import annotations

import pytest

from agentgym.core.rewards import lint
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.envs.search import SearchEnv
from agentgym.envs.search.deciding import decision_f1, implied_decision_f1, labels
from agentgym.envs.search.options import DEFAULT, SCHEMES, tier

PAID: list[tuple[str, list[dict[str, float]], float]] = [
    ("default", [{"outcome": 1.0}], 1.0),
    ("default", [dict.fromkeys(("outcome", "answered", "f1", "evidence", "citations", "format"), 1.0)], 1.4),
    ("default", [{"redundant": 1.0, "searches": 1.0}, {"outcome": 1.0, "searches": 1.0}], 1 - 0.05 - 2 * 0.01),
    ("default", [{"answered": 1.0, "f1": 0.6, "evidence": 0.5, "citations": 1.0, "format": 1.0}], 0.17),
    ("default", [{"answered": 1.0, "f1": 0.5, "evidence": 0.5}], 0.15),
    ("default", [{"answered": 1.0, "f1": 0.4, "evidence": 0.5}], 0.05),
    ("default", [{"answered": 1.0, "f1": 0.9, "redundant": 1.0, "searches": 1.0}], 0.0),
    ("default", [{"f1": 0.9, "evidence": 1.0}], 0.0),
    ("search-r1", [{"outcome": 1.0, "evidence": 0.5}], 1.0),
    ("search-r1", [{"outcome": 1.0, "broken": 1.0}], 0.8),
    ("search-r1", [{"tier": 0.2, "evidence": 0.5}], 0.2),
    ("search-r1", [{"tier": 0.2}], 0.0),
    ("reseek", [{"judged_right": 0.3, "evidence": 0.5}, {"judged_right": 0.3}], 0.3),
    ("reseek", [{"judged_right": 0.3}], 0.0),
    ("reseek", [{"judged_wrong": -0.6}, {"outcome": 1.0}], 0.7),
    ("adasearch", [{"rightly_searched": 1.0, "evidence": 0.5}], 0.5),
    ("adasearch", [{"rightly_searched": 1.0}], 0.0),
    ("adasearch", [{"rightly_known": 1.0, "outcome": 1.0}], 1.5),
    ("adasearch", [{"rightly_known": 1.0}], 0.0),
]


def test_schemes_pay_what_they_state():
    schemes = {"default": DEFAULT, **SCHEMES}
    assert [schemes[name].total(turns) for name, turns, _ in PAID] == [pytest.approx(paid) for _, _, paid in PAID]
    for name in schemes:
        assert lint(SearchEnv.schemes[name], SearchEnv.channels, 20) == []


TIERS = [(1, 1, 1, 1), (1, 0, 1, 0.8), (0, 1, 1, 0.2), (0, 0, 1, 0.1), (0, 1, 0, 0.2), (0, 0, 0, 0)]


def test_tiers_are_those_of_search_r1():
    for right, readable, answered, total in TIERS:
        paid = right + tier(right=bool(right), readable=bool(readable), answered=bool(answered))
        assert paid == pytest.approx(total)


DECISIONS = {
    "right": (1, 1, 1),
    "right wrong": (1 / 2, 1, 2 / 3),
    "right missed": (1, 1 / 2, 2 / 3),
    "right right wrong missed missed missed": (2 / 3, 2 / 5, 1 / 2),
    "wrong": (0, 0, 0),
    "missed": (0, 0, 0),
    "searched": (0, 0, 0),
    "right searched searched": (1, 1, 1),
}
KINDS = {"right": (1.0, 1.0), "wrong": (1.0, 0.0), "missed": (0.0, 0.0), "searched": (0.0, 1.0)}


def episode(*turns: dict[str, float], tag: str = "chain") -> Trajectory:
    return Trajectory("x", "e", "t", "h", 0, "p", [], turns=[Turn("", [], turn, 0.0) for turn in turns], tags=(tag,))


def decision(kind: str) -> dict[str, float]:
    return {"decided": 1.0, "decided_known": KINDS[kind][0], "decision": KINDS[kind][1]}


def test_deciding_has_precision_recall_and_their_harmonic_mean():
    undecided = {"decided_known": 1.0, "decision": 1.0}
    for kinds, expected in DECISIONS.items():
        turns = [undecided, {"outcome": 1.0}, *map(decision, kinds.split()), undecided]
        assert list(decision_f1([episode(*turns)]).values()) == pytest.approx(expected), kinds
    kinds = (*["right"] * 2, "wrong", *["missed"] * 3, "searched")
    figures = {"decision precision": 2 / 3, "decision recall": 0.4, "decision F1": 0.5}
    assert decision_f1([episode(decision(kind)) for kind in kinds]) == pytest.approx(figures)
    assert decision_f1([]) == {}
    assert labels({"a": 0.2, "b": 0.5}, 0.5) == {"a": True, "b": False}


def test_not_searching_is_a_decision_where_nothing_asks_for_one():
    def searching(searches: int, tag: str) -> Trajectory:
        return episode(*[{"searches": 1.0}] * searches, {"searches": 0.0}, tag=tag)

    episodes = [searching(0, "no_search")] * 2 + [searching(0, "chain")]
    episodes += [searching(2, "no_search")] * 3 + [searching(1, "chain")]
    expected = {"decision precision": 2 / 3, "decision recall": 0.4, "decision F1": 0.5}
    assert implied_decision_f1(episodes) == pytest.approx(expected)
    assert SearchEnv.figures(episodes) == pytest.approx(expected)
    assert implied_decision_f1([searching(0, "chain"), searching(1, "chain")]) == {}
    stated = episode(decision("right") | {"searches": 1.0}, tag="no_search")
    assert SearchEnv.figures([stated])["decision F1"] == 1.0, "a stated decision counts before the searches"
    assert implied_decision_f1([stated])["decision F1"] == 0.0
