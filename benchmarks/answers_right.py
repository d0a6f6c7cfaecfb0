"""Grade a table of answers with known verdicts, with our graders and by the rules of the official ones.

    python -m benchmarks.answers_right

`answers_right.tsv` has one answer per line: its kind, 1 if it is right, the gold, the answer and the question. Golds
and answers of SQL cells and rows are Python literals, in which `D'20.10'` is a decimal. The verdicts are what a person
who knows the question and the gold would say. The official rules are those of GSM8K's `dataset.py` (Cobbe et al. 2021),
SQuAD's and HotpotQA's exact match, BIRD's comparison of sets of rows, and Spider's of rows with columns in any order
(Zhong et al. 2020). They read only one form of an answer, so they agree less.
"""

from __future__ import annotations

import ast
import csv
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.core.answers.decisions import Decision
from agentgym.core.task import Task
from agentgym.envs.code.verdict import answer_decision, read_literal
from agentgym.envs.search.env import decide
from agentgym.envs.sql.verdict import verdict_on_rows, verdict_on_value
from agentgym.tasks.code.formats import CodeEntry, gsm8k
from agentgym.tools.database.base import QueryResult
from agentgym.tools.database.wire import decode_rows
from benchmarks._report import Claim, argument_parser, write

TABLE = Path(__file__).with_name("answers_right.tsv")
_DECIMAL = re.compile(r"D('[^']*')")


class JudgedAnswer(NamedTuple):
    """A line of the table."""

    kind: str
    is_right: bool
    gold: str
    answer: str
    question: str


def read_table() -> list[JudgedAnswer]:
    """Return the lines of the table; `\\n` in a gold or an answer is a line break."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [
        JudgedAnswer(kind, right == "1", gold, answer.replace("\\n", "\n"), question)
        for kind, right, gold, answer, question in lines
    ]


def grade(row: JudgedAnswer) -> Decision:
    """Return the decision of the grader that is responsible for answers of this kind."""
    kind, _, gold, answer, question = row
    if kind in ("sql_cell", "sql_single", "sql_rows"):
        verdict = verdict_on_rows(_result(kind, answer), _result(kind, gold), False, question, lambda _: False)
        return Decision(verdict.solved, verdict.rule)
    if kind in ("sql_value", "sql_list"):
        verdict = verdict_on_value(answer, _result(kind, gold), False, question)
        return Decision(verdict.solved, verdict.rule)
    if kind == "gsm8k":
        entry = gsm8k(CodeEntry("", {"question": question, "answer": f"#### {gold}"}))
        return answer_decision(answer, read_literal(entry.gold["answer"], "the gold"), entry.prompt)
    if kind == "code_value":
        return answer_decision(answer, read_literal(gold, "the gold"), question)
    return decide(answer, Task("t", "test", question, gold={"answers": [gold], "unanswerable": False}), "em")


def official_gsm8k(row: JudgedAnswer) -> bool:
    """Compare the characters of a number after `####`, without commas."""

    def extract(text: str) -> str:
        stated = re.search(r"#### (-?[0-9.,]+)", f"#### {text}")
        return stated[1].replace(",", "") if stated else "[invalid]"

    return extract(row.answer) == extract(row.gold) != "[invalid]"


def official_exact_match(row: JudgedAnswer) -> bool:
    """Compare texts in lower case, without ASCII punctuation and English articles."""

    def normalize(text: str) -> str:
        without = "".join(char for char in text.lower() if char not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", without).split())

    return normalize(row.answer) == normalize(row.gold)


def official_bird(row: JudgedAnswer) -> bool:
    """Compare sets of rows."""
    return set(_result(row.kind, row.answer).rows) == set(_result(row.kind, row.gold).rows)


def official_spider(row: JudgedAnswer) -> bool:
    """Compare multisets of rows under any order of the columns."""
    rows, gold_rows = _result(row.kind, row.answer).rows, _result(row.kind, row.gold).rows
    if len(rows) != len(gold_rows) or len(rows[0]) != len(gold_rows[0]):
        return False
    orders = permutations(range(len(rows[0])))
    return any(Counter(tuple(each[i] for i in order) for each in rows) == Counter(gold_rows) for order in orders)


_EXACT_MATCH = {"SQuAD, HotpotQA": official_exact_match}
_EXECUTION_MATCH = {"BIRD": official_bird, "Spider": official_spider}
OFFICIAL: Mapping[str, Mapping[str, Callable[[JudgedAnswer], bool]]] = {
    "gsm8k": {"GSM8K": official_gsm8k},
    "text": _EXACT_MATCH,
    "date": _EXACT_MATCH,
    "sql_cell": _EXECUTION_MATCH,
    "sql_single": _EXECUTION_MATCH,
    "sql_rows": _EXECUTION_MATCH,
}
"""The official rules for each kind of answer, by name."""


def _result(kind: str, text: str) -> QueryResult:
    """Return the result that a literal of rows, or of a single cell, stands for."""
    value: Any = ast.literal_eval(_DECIMAL.sub(r"{'m': \1}", text))
    rows = decode_rows(value if isinstance(value, list) else [[value]])
    width = len(rows[0])
    types = ("FLOAT" if kind == "sql_single" else "?",) * width
    return QueryResult(tuple(map(str, range(width))), types, rows, False, 0.0)


def main() -> None:
    argument_parser(__doc__).parse_args()
    table = read_table()
    rows: list[dict[str, Any]] = []
    for kind in dict.fromkeys(row.kind for row in table):
        own = [row for row in table if row.kind == kind]
        decisions = [grade(row) for row in own]
        agreeing = [decision.equal == row.is_right for decision, row in zip(decisions, own, strict=True)]
        rules = Counter(decision.rule.value for decision in decisions)
        official = {
            name: sum(rule(row) == row.is_right for row in own) for name, rule in OFFICIAL.get(kind, {}).items()
        }
        counts = {"answers": len(own), "right": sum(row.is_right for row in own), "agreeing": sum(agreeing)}
        rows.append({"kind": kind, **counts, "official_agreeing": official, "rules": dict(rules)})
    total, agreeing_total = len(table), sum(row["agreeing"] for row in rows)
    claims = [
        Claim("answers_right_table", total, ">=", 400),
        Claim("answers_right_agreeing", round(agreeing_total / total, 4), ">=", 1.0),
    ]
    write("answers_right", rows, claims)


if __name__ == "__main__":
    main()
