"""Answers are graded as the official scripts do; what else is measured of a search episode follows its definition."""

from __future__ import annotations

import re
import string
from typing import Any, cast

import pytest

from agentgym.envs.search import SearchEnv
from agentgym.envs.search.answers import abstains, contains, exact, f1, mentions, nearly, normalize, without_citations
from agentgym.envs.search.deciding import decision_f1, implied_decision_f1, labels
from agentgym.envs.search.judging import brings_news, shows_answer, worth
from agentgym.envs.search.ledger import Ledger
from agentgym.envs.search.schemes import DEFAULT, SCHEMES, tier
from agentgym.envs.search.verdict import verdict
from agentgym.errors import ToolError
from agentgym.rewards import OUTCOME, lint
from agentgym.task import Task
from agentgym.tools.index import Hit
from agentgym.trajectory import Trajectory, Turn

PAIRS = [
    ("The  Beatles!", "beatles"),
    ("an apple, a pear & the plum", "apple pear plum"),
    ("U.S.A.", "usa"),
    ("twenty-one", "twentyone"),
    ("  Tab\tand\nline ", "tab and line"),
    ("A", ""),
    ("Theatre of the Absurd", "theatre of absurd"),
    ("Ștefan I. Nenițescu", "ștefan i nenițescu"),
    ("“quoted”", "“quoted”"),
    ("don't", "dont"),
    ("1,000.5", "10005"),
    ("İstanbul", "i̇stanbul"),
    ("the a an", ""),
    ("Anna", "anna"),
    ("the-end", "theend"),
    ("", ""),
]


def official(text: str) -> str:
    """Return what the published evaluation scripts of SQuAD and HotpotQA make of a text, step by step."""
    lowered = text.lower()
    without = "".join(char for char in lowered if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", without).split())


@pytest.mark.parametrize(("text", "wanted"), PAIRS)
def test_normalisation_is_that_of_squad_and_hotpotqa(text: str, wanted: str):
    assert normalize(text) == official(text) == wanted


@pytest.mark.parametrize(
    ("answer", "golds", "value"),
    [
        ("Port Veld", ["port veld"], 1.0),
        ("Veld", ["Port Veld"], 2 / 3),
        ("Port Veld or Port Orn", ["Port Veld"], 2 * 2 / (5 + 2)),
        ("Veld Veld", ["Port Veld"], 0.5),
        ("x", ["Port Veld", "X!"], 1.0),
        ("yes it is", ["yes"], 0.0),
        ("no", ["no one"], 0.0),
        ("the", ["a"], 0.0),
        ("a", ["A"], 1.0),
        ("3.5", ["35"], 0.0),
        ("nothing", ["else"], 0.0),
    ],
)
def test_f1_counts_common_words_and_keeps_yes_and_no_apart(answer: str, golds: list[str], value: float):
    assert f1(answer, golds) == pytest.approx(value)


def test_an_answer_that_lists_candidates_is_no_exact_match():
    assert exact("The Port Veld.", ["Port Veld"])
    assert not exact("Port Veld, Port Orn", ["Port Veld"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3.5", "35"), ("12,5", "125"), ("-5", "5"), ("2-0", "20"), ("1/2", "12"), ("1/2", "1.2"), ("12:30", "1230"),
        ("the", "A"), ("...", "A"), ("", "the"), ("1,000", "1.000"),
    ],
)  # fmt: skip
def test_what_the_normalisation_of_squad_throws_away_still_counts(one: str, other: str):
    assert not exact(one, [other])
    assert not exact(other, [one])
    assert not nearly(one, [other])
    assert not contains(one, [other])


@pytest.mark.parametrize("text", ["1,234", "A", "the", "3.5", "-5", "2-0", "?", "12 May 1871", "“quoted”"])
def test_every_gold_equals_itself_in_any_case(text: str):
    assert exact(text.upper(), [text])
    assert nearly(text, [text])
    assert contains(text, [text])
    assert exact("1234", ["1,234"])


def test_exact_match_is_never_looser_than_that_of_the_published_scripts():
    texts = [text for pair in PAIRS for text in pair if official(text)]
    texts += [
        "3.5",
        "35",
        "1,000",
        "1000",
        "-5",
        "5",
        "1914-18",
        "191418",
        "1914–18",
        "$5",
        "5%",
        "5",
        "2-0",
        "1/2",
        "1.2",
    ]
    for one in texts:
        for other in texts:
            assert official(one) == official(other) or not exact(one, [other]), (one, other)


BORN = "Where was the mayor of Port Veld, who held office in 1902, born?"
OLDER = "Which is older: Lisk, Tam or Orn?"
COMMITTED = [
    ("Lisk", ["Lisk"], BORN),
    ("It is Lisk, I think", ["lisk"], BORN),
    ("The mayor of Port Veld was born in Lisk.", ["Lisk"], BORN),
    ("I believe that the answer is the village of Lisk", ["Lisk", "the village of Lisk"], BORN),
    ("Perhaps Lisk", ["Lisk"], BORN),
    ("Lisk", ["Lisk"], OLDER),
    ("The answer is Lisk.", ["Lisk"], OLDER),
    ("Yes, it is", ["yes"], "Is Lisk older than Tam?"),
    ("12 years", ["12"], "How long did it last?"),
    ("about 1,234 inhabitants in 1902", ["1,234"], "About how many inhabitants had Lisk in 1902?"),
    ("Neither Here nor There", ["Neither Here nor There"], "Which novel is meant?"),
]
UNCOMMITTED = [
    ("Lisk or Orn", ["Lisk"], BORN),
    ("Lisk, Orn, Tam", ["Lisk"], BORN),
    ("Lisk Orn", ["Lisk"], BORN),
    ("not Lisk", ["Lisk"], BORN),
    ("Orn, not Lisk", ["Lisk"], BORN),
    ("It was never in Lisk", ["Lisk"], BORN),
    ("unknown, Lisk", ["Lisk"], BORN),
    ("Port Velden", ["Port Veld"], BORN),
    ("Lisk Tam Orn", ["Lisk"], OLDER),
    ("Lisk, Tam or Orn", ["Lisk"], OLDER),
    ("Orn is older than Lisk", ["Lisk"], OLDER),
    (OLDER, ["Lisk"], OLDER),
    ("yes and no", ["yes"], "Is Lisk older than Tam?"),
    ("yes, no", ["no"], "Is Lisk older than Tam?"),
    ("not yes", ["yes"], "Is Lisk not older than Tam?"),
    ("12 or 13", ["12"], "How long did it last?"),
    ("10 11 12 13", ["12"], "How long did it last?"),
    ("12 million", ["12"], "How long did it last?"),
    ("Lisk is a village on the river Tam. A mill burned in 1902.", ["Lisk"], BORN),
    ("the mayor of Port Veld " * 5 + "Lisk", ["Lisk"], BORN),
]


@pytest.mark.parametrize(("answer", "golds", "question"), COMMITTED)
def test_an_answer_in_a_sentence_contains_the_gold(answer: str, golds: list[str], question: str):
    assert contains(answer, golds, question)


@pytest.mark.parametrize(("answer", "golds", "question"), UNCOMMITTED)
def test_an_answer_that_commits_itself_to_nothing_contains_no_gold(answer: str, golds: list[str], question: str):
    assert not contains(answer, golds, question)


@pytest.mark.parametrize("gold", ["Lisk", "Port Veld", "the Treaty of Lisk and Orn"])
def test_an_answer_has_at_most_12_words_more_than_twice_the_golds(gold: str):
    words = len(normalize(gold).split())
    framed = " ".join(["it"] * (words + 12)) + f" {gold}"
    assert contains(framed, [gold], BORN)
    assert not contains(f"it {framed}", [gold], BORN)


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("Ana Maria Orn", "Ana Orn", True),
        ("not Ana Orn", "Ana Orn", False),
        ("May 1871", "12 May 1871", False),
        ("13 May 1871 in the town of Lisk", "12 May 1871 in the town of Lisk", False),
        ("the Treaty of Lisk and Orn or Tam", "the Treaty of Lisk and Orn", False),
        ("Ana", "Ana Orn", False),
        ("yes no", "yes", False),
    ],
)
def test_an_answer_is_nearly_right_only_with_the_numbers_and_without_denying_it(answer: str, gold: str, right: bool):
    assert nearly(answer, [gold]) is right


def test_a_text_mentions_an_answer_in_whole_words():
    assert mentions("Ana Orn was born in Lisk in 1871.", ["Tam", "lisk"])
    assert not mentions("Ana Orn was born in Liskov in 18.71.", ["lisk", "71"])


def test_saying_that_there_is_no_answer_is_recognised_and_nothing_else():
    assert all(map(abstains, ("unknown", "Unknown.", "It is not stated", "Unanswerable", "I don't know")))
    assert not any(map(abstains, ("The Unknown Soldier", "no", "", "unknown or Port Veld")))


def test_citations_are_taken_off_the_answer():
    assert without_citations("Port Veld [2] [5, 7][2]") == ("Port Veld", (2, 5, 7))
    assert without_citations("[3] Veld") == ("Veld", (3,))
    assert without_citations("the [old] town") == ("the [old] town", ())


@pytest.mark.parametrize(
    ("right", "readable", "answered", "total"),
    [(1, 1, 1, 1), (1, 0, 1, 0.8), (0, 1, 1, 0.2), (0, 0, 1, 0.1), (0, 1, 0, 0.2), (0, 0, 0, 0)],
)
def test_tiers_are_those_of_search_r1(right: int, readable: int, answered: int, total: float):
    assert right + tier(right=bool(right), readable=bool(readable), answered=bool(answered)) == pytest.approx(total)


def test_verdicts_are_worth_what_reseek_says():
    assert [worth(True, True), worth(False, False), worth(True, False), worth(False, True)] == [0.3, 0.3, -0.6, -0.3]


def test_deciding_is_measured_over_the_episodes_that_decided():
    def episode(known: int, right: int) -> Trajectory:
        rewards = {"decided": 1.0, "decided_known": float(known), "decision": float(right)}
        turns = [Turn("", [], rewards, 0.0), Turn("", [], dict.fromkeys(rewards, 0.0), 0.0)]
        return Trajectory("x", "e", "t", "h", 0, "p", [], turns=turns)

    episodes = [episode(1, 1)] * 2 + [episode(1, 0)] + [episode(0, 0)] * 3 + [episode(0, 1)]
    found = decision_f1(episodes)
    assert found == pytest.approx({"decision precision": 2 / 3, "decision recall": 0.4, "decision F1": 0.5})
    assert decision_f1([episode(0, 0)] * 4)["decision F1"] == 0
    assert decision_f1([]) == {}
    assert labels({"a": 0.2, "b": 0.5}, 0.5) == {"a": True, "b": False}


def test_not_searching_is_a_decision_where_nothing_asks_for_one():
    def episode(searches: int, known: bool) -> Trajectory:
        turns = [Turn("", [], {"searches": 1.0}, 0.0)] * searches + [Turn("", [], {"searches": 0.0}, 0.0)]
        return Trajectory("x", "e", "t", "h", 0, "p", [], turns=turns, tags=("no_search",) if known else ("chain",))

    episodes = [episode(0, True)] * 2 + [episode(0, False)] + [episode(2, True)] * 3 + [episode(1, False)]
    expected = {"decision precision": 2 / 3, "decision recall": 0.4, "decision F1": 0.5}
    assert implied_decision_f1(episodes) == pytest.approx(expected)
    assert SearchEnv.figures(episodes) == pytest.approx(expected)
    assert implied_decision_f1([episode(0, False), episode(1, False)]) == {}


def test_a_stated_decision_counts_before_what_was_done():
    rewards = {"decided": 1.0, "decided_known": 1.0, "decision": 1.0, "searches": 1.0}
    stated = Trajectory("x", "e", "t", "h", 0, "p", [], turns=[Turn("", [], rewards, 0.0)], tags=("no_search",))
    assert SearchEnv.figures([stated])["decision F1"] == 1.0
    assert implied_decision_f1([stated])["decision F1"] == 0.0


@pytest.mark.parametrize(
    ("decisions", "precision", "recall", "f1_"),
    [
        ("right", 1, 1, 1),
        ("right wrong", 1 / 2, 1, 2 / 3),
        ("right missed", 1, 1 / 2, 2 / 3),
        ("right wrong missed", 1 / 2, 1 / 2, 1 / 2),
        ("right right wrong missed missed missed", 2 / 3, 2 / 5, 1 / 2),
        ("wrong", 0, 0, 0),
        ("missed", 0, 0, 0),
        ("wrong missed", 0, 0, 0),
        ("searched", 0, 0, 0),
        ("right searched searched", 1, 1, 1),
    ],
)
def test_deciding_has_precision_recall_and_their_harmonic_mean(
    decisions: str, precision: float, recall: float, f1_: float
):
    kinds = {"right": (1.0, 1.0), "wrong": (1.0, 0.0), "missed": (0.0, 0.0), "searched": (0.0, 1.0)}

    def turn(kind: str) -> Turn:
        known, correct = kinds[kind]
        return Turn("", [], {"decided": 1.0, "decided_known": known, "decision": correct}, 0.0)

    undecided = Turn("", [], {"decided_known": 1.0, "decision": 1.0}, 0.0)
    other = Turn("", [], {"outcome": 1.0}, 0.0)
    turns = [undecided, other, *map(turn, decisions.split()), undecided]
    found = decision_f1([Trajectory("x", "e", "t", "h", 0, "p", [], turns=turns)])
    assert list(found.values()) == pytest.approx([precision, recall, f1_])


GOLD = {"answers": ["Lisk", "12", "Veld"], "evidence": ["p1", "p2"]}
ASKED = "Which town of the Veld burned?"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It was in Lisk.", True),
        ("Liskov", False),
        ("12 houses", False),  # too short to tell anything
        ("the Veld", False),  # stands in the question
        ("", False),
    ],
)
def test_a_page_shows_an_answer_that_the_question_does_not_name(text: str, shown: bool):
    assert shows_answer([text, "Tam."], GOLD, ASKED) is shown
    assert shows_answer([], GOLD, ASKED) is False
    assert brings_news({"p9": text}, GOLD, ASKED) is shown


def test_an_answer_of_three_letters_is_long_enough():
    assert shows_answer(["It was in Orn."], {"answers": ["Orn"]}, ASKED)


def test_new_evidence_is_news_whatever_it_says():
    assert brings_news({"p8": "", "p2": ""}, GOLD, ASKED)
    assert not brings_news({}, GOLD, ASKED)
    assert not brings_news({"p2": "Tam."}, {"answers": ["Lisk"]}, ASKED)


def answered(said: str, rule: str = "em", **gold: Any) -> dict[str, float]:
    task = Task("t", "test", ASKED, gold={"unanswerable": False, "answers": ["Lisk"], **gold})
    return verdict(said, task, cast(Any, rule))


@pytest.mark.parametrize(
    ("said", "rights"),
    [("Lisk", (1, 1, 1)), ("It is Lisk", (0, 0, 1)), ("Tam", (0, 0, 0)), ("unknown", (0, 0, 0))],
)
def test_an_answer_is_right_by_the_rule_that_was_chosen(said: str, rights: tuple[int, ...]):
    assert tuple(answered(said, rule)[OUTCOME] for rule in ("em", "f1", "contains")) == rights
    assert answered(said)["answered"] == 1.0


def test_where_there_is_no_answer_only_saying_so_is_right():
    for rule in ("em", "f1", "contains"):
        right, wrong = (answered(said, rule, unanswerable=True, answers=[]) for said in ("unknown", "Lisk"))
        assert [right[name] for name in (OUTCOME, "em", "f1")] == [1.0, 1.0, 1.0]
        assert [wrong[name] for name in (OUTCOME, "em", "f1")] == [0.0, 0.0, 0.0]


def test_an_answer_is_misled_if_it_is_the_wrong_one_that_was_planted():
    assert answered("Tam", wrong="Tam")["misled"] == 1.0
    assert answered("Lisk", wrong="Tam")["misled"] == 0.0
    assert answered("Tam")["misled"] == answered("Tam", wrong="")["misled"] == 0.0


@pytest.mark.parametrize(
    ("scheme", "turns", "paid"),
    [
        ("default", [{"outcome": 1.0}], 1.0),
        (
            "default",
            [{"outcome": 1.0, "answered": 1.0, "f1": 1.0, "evidence": 1.0, "citations": 1.0, "format": 1.0}],
            1.4,
        ),
        ("default", [{"redundant": 1.0, "searches": 1.0}, {"outcome": 1.0, "searches": 1.0}], 1 - 0.05 / 2 - 0.01),
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
    ],
)
def test_schemes_pay_what_they_say(scheme: str, turns: list[dict[str, float]], paid: float):
    assert {"default": DEFAULT, **SCHEMES}[scheme].total(turns) == pytest.approx(paid)


def hits(*ids: str) -> list[Hit]:
    return [Hit(name, name.upper(), "", 1.0) for name in ids]


def test_pages_keep_their_number_and_answer_to_their_title():
    ledger = Ledger()
    assert ledger.add(hits("a", "b")) == [1, 2]
    assert ledger.add(hits("c", "a")) == [3, 1]
    assert [ledger.find(name) for name in ("3", "[1]", " b ", "A")] == ["c", "a", "b", "a"]
    for name in ("0", "4", "nothing", "99999999999999999999", ""):
        with pytest.raises(ToolError, match="1 to 3"):
            ledger.find(name)


def test_a_title_that_several_pages_have_names_none_of_them():
    ledger = Ledger()
    with pytest.raises(ToolError, match="none yet; search first"):
        ledger.find("1")
    ledger.add([Hit(str(number), "Same" if number < 8 else f"Other {number}", "", 1.0) for number in range(10)])
    assert ledger.find(" other 9 ") == "9"
    with pytest.raises(ToolError, match=r"open one by its number: 1, 2, 3, 4, 5\."):
        ledger.find("Same")
    assert (len(ledger), ledger.number_of("9"), ledger.number_of("10")) == (10, 10, None)


def test_a_search_is_redundant_if_it_repeats_or_finds_nothing_new():
    ledger = Ledger()
    assert not ledger.is_redundant("Port  Veld", hits("a"))
    ledger.add(hits("a"))
    assert ledger.is_redundant("port veld", hits("b"))
    assert ledger.is_redundant("other words", hits("a"))
    assert not ledger.is_redundant("more words", hits("a", "b"))


def test_only_pages_whose_text_was_shown_count_as_evidence():
    ledger = Ledger()
    ledger.add(hits("a", "b", "c"))
    ledger.show("a")
    ledger.show("c")
    assert ledger.recall(["a", "b"]) == 0.5
    assert ledger.precision([1, 2, 3], ["a", "b"]) == pytest.approx(1 / 3)
    assert (ledger.recall([]), ledger.precision([], ["a"])) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["default", *SCHEMES])
def test_no_scheme_pays_a_wrong_answer_as_much_as_a_right_one(name: str):
    from agentgym.envs.search import SearchEnv

    assert lint(SearchEnv.schemes[name], SearchEnv.channels, 20) == []
