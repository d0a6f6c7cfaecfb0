"""Compares an answer that is written as text with a number, a date or another text."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from agentgym.core.answers.dates import read_date
from agentgym.core.answers.decisions import OTHER, SAME, UNREADABLE, Decision, DecisionRule
from agentgym.core.answers.numbers import MAX_CHARS, Number, Quantity, is_rounded, read_quantity, same_number
from agentgym.core.answers.texts import fold, nfc, plain
from agentgym.core.answers.units import is_named, same_unit, scales_in

FEWEST_DECIMALS = 2
"""Fewest decimals of a rounded number, where a prompt allows rounding and the question does not ask for others."""
ROUNDING = "Numbers may be rounded to two decimals or more, unless the question asks for another precision."
"""The rule of rounding in the words of a prompt."""

_COUNTS = {
    name: count for count, name in enumerate(["no", "one", "two", "three", "four", "five", "six", "seven", "eight"])
}
_ASKED = re.compile(rf"\b(\d|{'|'.join(_COUNTS)})[- ](?:decimals?|digits? after)\b", re.IGNORECASE)
_NEAREST = re.compile(r"\bnearest (?:(?P<whole>integer|whole|unit|dollar)|(?P<tenth>tenth)|(?P<cent>hundredth|cent))\b")


def fewest_decimals(question: str) -> int:
    """Return the fewest decimals that a rounded answer to a question may have."""
    if asked := _ASKED.search(question):
        return _COUNTS.get(asked[1].lower(), 0) if not asked[1].isdecimal() else int(asked[1])
    if nearest := _NEAREST.search(question.lower()):
        return 0 if nearest["whole"] else 1 if nearest["tenth"] else FEWEST_DECIMALS
    return FEWEST_DECIMALS


def number_decision(answer: str, gold: Number, question: str = "", fewest: int | None = None) -> Decision:
    """Return the decision on an answer to a question whose gold is a number without a unit.

    Args:
        answer: The answer.
        gold: The number.
        question: The question, whose units the answer may name.
        fewest: Fewest decimals that a rounded answer may have; `None` forbids rounding.
    """
    quantity = read_quantity(answer)
    if quantity is None:
        return UNREADABLE
    return _quantity_decision(quantity, gold, "", question, fewest)


def text_decision(answer: str, gold: str, question: str = "", key: Callable[[str], str] = str.strip) -> Decision:
    """Return the decision on an answer whose gold is text: the same text, quantity or date.

    Args:
        answer: The answer.
        gold: The gold.
        question: The question, whose units the answer may name.
        key: Returns the form in which an environment compares texts, such as lower case.
    """
    mine, theirs = nfc(answer).strip(), nfc(gold).strip()
    if mine == theirs:
        return SAME
    same_text = key(fold(mine)) == key(fold(theirs))
    if max(len(mine), len(theirs)) <= MAX_CHARS:
        answer_words, gold_words = plain(fold(mine)), plain(fold(theirs))
        date, gold_date = read_date(answer_words), read_date(gold_words)
        if date is not None and gold_date is not None:
            return Decision(date == gold_date, DecisionRule.DATE if date == gold_date else DecisionRule.OTHER_DATE)
        quantity, gold_quantity = read_quantity(answer_words), read_quantity(gold_words)
        if quantity is not None and gold_quantity is not None:
            return _written_decision(quantity, gold_quantity, question, same_text)
    if not same_text:
        return OTHER
    return SAME if key(mine) == key(theirs) else Decision(True, DecisionRule.TYPOGRAPHY)


def _written_decision(answer: Quantity, gold: Quantity, question: str, same_text: bool) -> Decision:
    decision = _quantity_decision(answer, gold.value, gold.unit, question, None)
    are_decimals = isinstance(answer.value, Decimal) and isinstance(gold.value, Decimal)
    # Without a unit, 1.10 may be a version or a section, which 1.1 is not.
    may_be_version = are_decimals and gold.value != int(gold.value) and not (answer.unit or gold.unit or same_text)
    if decision.equal and may_be_version and answer.decimals != gold.decimals:
        return Decision(False, DecisionRule.OTHER_NUMBER)
    if decision.rule is DecisionRule.SAME and not same_text:
        return Decision(True, DecisionRule.NUMBER)
    return decision


def _quantity_decision(answer: Quantity, gold: Number, gold_unit: str, question: str, fewest: int | None) -> Decision:
    rule = _number_rule(answer, gold, fewest)
    if rule is None:
        scaled = [answer._replace(value=_divided(answer.value, factor)) for factor in scales_in(question)]
        rule = next((same for each in scaled if (same := _number_rule(each, gold, fewest)) is not None), None)
    if rule is None:
        return Decision(False, DecisionRule.OTHER_NUMBER)
    if same_unit(answer.unit, gold_unit):
        return Decision(True, rule)
    is_right = is_named(answer.unit, gold_unit, question)
    return Decision(is_right, DecisionRule.UNIT if is_right else DecisionRule.OTHER_UNIT)


def _number_rule(answer: Quantity, gold: Number, fewest: int | None) -> DecisionRule | None:
    """Return the rule that makes a written number equal to a gold one, or `None`."""
    if same_number(answer.value, gold):
        return DecisionRule.SAME if answer.value == gold else DecisionRule.ROUNDING_ERROR
    written = Decimal(answer.value) if isinstance(answer.value, int) else answer.value
    if fewest is not None and is_rounded(written, gold, fewest, answer.decimals):
        return DecisionRule.ROUNDED
    return None


def _divided(value: int | Decimal | Fraction, factor: int) -> int | Fraction:
    share = Fraction(value) / factor
    return int(share) if share == int(share) else share
