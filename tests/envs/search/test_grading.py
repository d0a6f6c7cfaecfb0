"""Grading of answers: as in the official scripts, but without the shortcuts that those accept."""

from __future__ import annotations

import re
import string
from typing import Any, cast

import pytest

from agentgym.base.errors import ToolError
from agentgym.core.answers.texts import fold
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import Task
from agentgym.envs.search.answers import abstains, contains, exact, f1, mentions, nearly, normalize, without_citations
from agentgym.envs.search.env import decide, verdict
from agentgym.envs.search.judging import brings_news, shows_answer, worth
from agentgym.envs.search.ledger import Ledger, StatedFact
from agentgym.tools.index import Hit

NORMALIZED = {
    "The  Beatles!": "beatles",
    "an apple, a pear & the plum": "apple pear plum",
    "U.S.A.": "usa",
    "  Tab\tand\nline ": "tab and line",
    "A": "",
    "Theatre of the Absurd": "theatre of absurd",
    "Ștefan I. Nenițescu": "ștefan i nenițescu",
    "“quoted”": "“quoted”",
    "1,000.5": "10005",
    "İstanbul": "i̇stanbul",
    "the-end": "theend",
}


def official(text: str) -> str:
    """Normalise a text as the published evaluation scripts of SQuAD and HotpotQA do, step by step."""
    lowered = text.lower()
    without = "".join(char for char in lowered if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", without).split())


def test_normalisation_is_that_of_squad_and_hotpotqa():
    assert {text: normalize(text) for text in NORMALIZED} == NORMALIZED
    assert {text: official(text) for text in NORMALIZED} == NORMALIZED


F1: list[tuple[str, list[str], float]] = [
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
]


def test_f1_counts_common_words_and_requires_equal_yes_and_no():
    assert [f1(answer, golds) for answer, golds, _ in F1] == [pytest.approx(value) for _, _, value in F1]


# The official normalisation makes these pairs equal.
OTHERS = [
    *(("C++", "C"), ("C#", "C"), ("A+", "A")),
    *(("3.5", "35"), ("12,5", "125"), ("-5", "5"), ("2-0", "20"), ("1/2", "12"), ("1/2", "1.2"), ("12:30", "1230")),
    *(("the", "A"), ("...", "A"), ("", "the"), ("1,000", "1.000")),
]
TEXTS = ["3.5", "35", "1,000", "1000", "-5", "5", "1914-18", "191418", "1914–18", "$5", "5%", "2-0", "1/2", "1.2"]


def test_exact_match_is_looser_than_that_of_the_published_scripts_in_typography_only():
    for pair in OTHERS:
        for answer, gold in (pair, pair[::-1]):
            assert not exact(answer, [gold]), pair
        assert not nearly(pair[0], [pair[1]]), pair
        assert not contains(pair[0], [pair[1]]), pair
    for text in ("1,234", "A", "the", "3.5", "-5", "2-0", "?", "12 May 1871", "“quoted”"):
        assert exact(text.upper(), [text]), text
        assert nearly(text, [text]), text
        assert contains(text, [text]), text
    assert exact("1234", ["1,234"])
    assert exact("The Port Veld.", ["Port Veld"])
    assert not exact("Port Veld, Port Orn", ["Port Veld"])
    texts = [text for pair in NORMALIZED.items() for text in pair if official(text)] + TEXTS
    looser = [(a, b) for a in texts for b in texts if exact(a, [b]) and official(fold(a)) != official(fold(b))]
    assert looser == []


BORN = "Where was the mayor of Port Veld, who held office in 1902, born?"
OLDER = "Which is older: Lisk, Tam or Orn?"
IS_OLDER = "Is Lisk older than Tam?"
LONG = "How many years did it last?"
CONTAINED: list[tuple[str, list[str], str, bool]] = [
    # An answer in a sentence contains the gold.
    ("Lisk", ["Lisk"], BORN, True),
    ("It is Lisk, I think", ["lisk"], BORN, True),
    ("The mayor of Port Veld was born in Lisk.", ["Lisk"], BORN, True),
    ("I believe that the answer is the village of Lisk", ["Lisk", "the village of Lisk"], BORN, True),
    ("The answer is Lisk.", ["Lisk"], OLDER, True),
    ("Yes, it is", ["yes"], IS_OLDER, True),
    ("12 years", ["12"], LONG, True),
    ("about 1,234 inhabitants in 1902", ["1,234"], "About how many inhabitants had Lisk in 1902?", True),
    ("Neither Here nor There", ["Neither Here nor There"], "Which novel is meant?", True),
    # An answer that does not commit itself is wrong.
    ("Lisk or Orn", ["Lisk"], BORN, False),
    ("Lisk Orn", ["Lisk"], BORN, False),
    ("not Lisk", ["Lisk"], BORN, False),
    ("Orn, not Lisk", ["Lisk"], BORN, False),
    ("It was never in Lisk", ["Lisk"], BORN, False),
    ("unknown, Lisk", ["Lisk"], BORN, False),
    ("Port Velden", ["Port Veld"], BORN, False),
    ("Lisk, Tam or Orn", ["Lisk"], OLDER, False),
    ("Orn is older than Lisk", ["Lisk"], OLDER, False),
    (OLDER, ["Lisk"], OLDER, False),
    ("yes and no", ["yes"], IS_OLDER, False),
    ("not yes", ["yes"], "Is Lisk not older than Tam?", False),
    ("10 11 12 13", ["12"], LONG, False),
    ("12 million", ["12"], LONG, False),
    ("Lisk is a village on the river Tam. A mill burned in 1902.", ["Lisk"], BORN, False),
    ("the mayor of Port Veld " * 5 + "Lisk", ["Lisk"], BORN, False),
]


def test_contains_accepts_only_answers_that_commit_themselves():
    assert [row for row in CONTAINED if contains(row[0], row[1], row[2]) is not row[3]] == []
    for gold in ("Lisk", "Port Veld", "the Treaty of Lisk and Orn"):
        framed = " ".join(["it"] * (len(normalize(gold).split()) + 12)) + f" {gold}"
        assert contains(framed, [gold], BORN), "up to 12 words more than twice the gold's"
        assert not contains(f"it {framed}", [gold], BORN)


NEARLY = [
    ("Ana Maria Orn", "Ana Orn", True),
    ("not Ana Orn", "Ana Orn", False),
    ("May 1871", "12 May 1871", False),
    ("13 May 1871 in the town of Lisk", "12 May 1871 in the town of Lisk", False),
    ("the Treaty of Lisk and Orn or Tam", "the Treaty of Lisk and Orn", False),
    ("Ana", "Ana Orn", False),
    ("yes no", "yes", False),
]


def test_nearly_right_answers_have_the_same_numbers_and_denials():
    assert [row for row in NEARLY if nearly(row[0], [row[1]]) is not row[2]] == []


def test_mentions_abstentions_and_citations_are_recognised():
    assert mentions("Ana Orn was born in Lisk in 1871.", ["Tam", "lisk"])
    assert not mentions("Ana Orn was born in Liskov in 18.71.", ["lisk", "71"])
    assert all(map(abstains, ("unknown", "Unknown.", "It is not stated", "Unanswerable", "I don't know")))
    assert not any(map(abstains, ("The Unknown Soldier", "no", "", "unknown or Port Veld")))
    assert without_citations("Port Veld [2] [5, 7][2]") == ("Port Veld", (2, 5, 7))
    assert without_citations("[3] Veld") == ("Veld", (3,))
    assert without_citations("the [old] town") == ("the [old] town", ())


QUESTION = "Which town of the Veld burned?"


def graded(answer: str, rule: str = "em", **gold: Any) -> dict[str, float]:
    task = Task("t", "test", QUESTION, gold={"unanswerable": False, "answers": ["Lisk"], **gold})
    return verdict(answer, task, decide(answer, task, cast(Any, rule)))


def test_an_answer_is_right_by_the_chosen_rule():
    rules = ("em", "f1", "contains")
    for answer, rights in {"Lisk": (1, 1, 1), "It is Lisk": (0, 0, 1), "Tam": (0, 0, 0), "unknown": (0, 0, 0)}.items():
        assert tuple(graded(answer, rule)[OUTCOME] for rule in rules) == rights
        assert graded(answer)["answered"] == 1.0
    for rule in rules:
        assert graded("5%", rule, answers=["$5"])[OUTCOME] == 0.0
        assert graded("seventy-eight", rule, answers=["78"])["f1"] == 1.0, "other spellings are paid alike"
        right, wrong = (graded(answer, rule, unanswerable=True, answers=[]) for answer in ("unknown", "Lisk"))
        assert [right[name] for name in (OUTCOME, "em", "f1")] == [1.0, 1.0, 1.0]
        assert [wrong[name] for name in (OUTCOME, "em", "f1")] == [0.0, 0.0, 0.0]


def test_the_injected_answer_is_misled():
    assert graded("Tam", wrong="Tam")["misled"] == 1.0
    assert graded("Lisk", wrong="Tam")["misled"] == 0.0
    assert graded("Tam")["misled"] == graded("Tam", wrong="")["misled"] == 0.0


GOLD = {"answers": ["Lisk", "12", "Veld"], "evidence": ["p1", "p2"]}


def test_useful_results_bring_new_evidence_or_an_answer():
    # "12" is too short, and the question names the Veld.
    for text, is_shown in (("It was in Lisk.", True), ("Liskov", False), ("12 houses", False), ("the Veld", False)):
        assert shows_answer([text, "Tam."], GOLD, QUESTION) is is_shown
        assert brings_news({"p9": text}, GOLD, QUESTION) is is_shown
    assert not shows_answer([], GOLD, QUESTION)
    assert shows_answer(["It was in Orn."], {"answers": ["Orn"]}, QUESTION)
    assert brings_news({"p8": "", "p2": ""}, GOLD, QUESTION)
    assert not brings_news({}, GOLD, QUESTION)
    assert not brings_news({"p2": "Tam."}, {"answers": ["Lisk"]}, QUESTION)
    assert [worth(True, True), worth(False, False), worth(True, False), worth(False, True)] == [0.3, 0.3, -0.6, -0.3]


def hits(*ids: str) -> list[Hit]:
    return [Hit(name, name.upper(), "", 1.0) for name in ids]


def test_pages_have_stable_numbers_and_are_found_by_title():
    ledger = Ledger()
    with pytest.raises(ToolError, match="search first"):
        ledger.find("1")
    assert ledger.add(hits("a", "b")) == [1, 2]
    assert ledger.add(hits("c", "a")) == [3, 1]
    assert [ledger.find(name) for name in ("3", "[1]", " b ", "A")] == ["c", "a", "b", "a"]
    for name in ("0", "4", "nothing", "99999999999999999999", ""):
        with pytest.raises(ToolError, match="1 to 3"):
            ledger.find(name)


def test_an_ambiguous_title_is_refused_with_the_numbers():
    ledger = Ledger()
    ledger.add([Hit(str(number), "Same" if number < 8 else f"Other {number}", "", 1.0) for number in range(10)])
    with pytest.raises(ToolError, match=r"1, 2, 3, 4, 5\."):
        ledger.find("Same")
    assert (ledger.find(" other 9 "), len(ledger), ledger.number_of("10")) == ("9", 10, None)


def test_repeated_and_fruitless_searches_are_redundant():
    ledger = Ledger()
    assert not ledger.is_redundant("Port  Veld", hits("a"))
    ledger.add(hits("a"))
    assert ledger.is_redundant("port veld", hits("b"))
    assert ledger.is_redundant("other words", hits("a"))
    assert not ledger.is_redundant("more words", hits("a", "b"))


def test_only_shown_pages_count_as_evidence():
    ledger = Ledger()
    ledger.add(hits("a", "b", "c"))
    for page in ("a", "c"):
        ledger.show(page, page, whole=True)
    assert ledger.recall(["a", "b"], []) == 0.5
    assert ledger.precision([1, 2, 3], ["a", "b"], []) == pytest.approx(1 / 3)
    assert (ledger.recall([], []), ledger.precision([], ["a"], [])) == (0.0, 0.0)


def test_a_fact_counts_wherever_it_is_read():
    facts = [StatedFact("a", "Port Veld", ("Ana Orn",)), StatedFact("b", "Ana Orn", ("1871",))]
    for text, stated in (
        ("Port Veld: … Its mayor is Ana Orn. …", "a"),
        ("Ana Orn: She was mayor of Port Veld …", "a"),
        ("Ana Orn: Born in 1871, she …", "b"),
        ("Ana Orn: Born in 1872, she …", ""),
        ("Lisk: Its mayor is Ana Orn.", ""),
        ("Port Veld: Founded in 1871 …", ""),
    ):
        ledger = Ledger()
        ledger.add(hits("x"))
        ledger.show("x", text, whole=False)
        assert ledger.recall(["a", "b"], facts) == 0.5 * bool(stated), text
        assert ledger.precision([1], ["a", "b"], facts) == bool(stated), text
    ledger.show("x", "Port Veld: Ana Orn is its mayor", whole=True)
    ledger.show("y", "Ana Orn (1871 to 1930)", whole=False)
    assert ledger.recall(["a", "b"], facts) == 1.0
