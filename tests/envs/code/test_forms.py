"""Forms of a check that shares a process with the submitted code: changed copies, and expected values withheld."""

from __future__ import annotations

import ast
from random import Random
from typing import Any

from agentgym.envs.code.asking import GraderReply
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.canaries import Withheld, perturbed
from agentgym.envs.code.plain import encode
from tests.envs.code.checks import GOLD, check_of, result


def forms(check: str, rounds: int = 60) -> set[str]:
    """Return the changed lines of the copies of a check."""
    own = ast.unparse(ast.parse(check)).splitlines()
    lines: set[str] = set()
    for seed in range(rounds):
        for copy in perturbed(check, Random(seed)):
            changed = [(a, b) for a, b in zip(own, copy.splitlines(), strict=True) if a != b]
            assert len(changed) == 1, "one expectation is changed, and not to itself"
            lines.add(changed[0][1].strip())
    return lines


def becomes(line: str, *values: object) -> set[str]:
    return {line.format(value) for value in values}


EQUAL = "assert candidate(9) == {}"
CHANGES = {
    EQUAL.format(50): becomes(EQUAL, 48, 49, 51, 52),
    EQUAL.format(1): becomes(EQUAL, 0, 2, 3),
    EQUAL.format(0): becomes(EQUAL, 1, 2),
    EQUAL.format(-1): becomes(EQUAL, "-0", -2, -3),
    EQUAL.format(1.5): becomes(EQUAL, 0.5, 2.5, 3.5),
    EQUAL.format(True): becomes(EQUAL, False),
    "assert candidate(9) is False": {"assert candidate(9) is True"},
    "assert candidate(9) is None": {"assert candidate(9) is 0"},
    EQUAL.format("''"): becomes(EQUAL, "'a'"),
    EQUAL.format("'x'"): becomes(EQUAL, "'xx'"),
    EQUAL.format("'xy'"): becomes(EQUAL, "'xx'", "'yy'"),
    EQUAL.format("b'xy'"): becomes(EQUAL, "b'xx'", "b'yy'"),
    EQUAL.format("float('inf')"): becomes(EQUAL, "float('-inf')"),
    EQUAL.format("[70, 80, 50]"): becomes("assert candidate(9) == [70, 80, {}]", 48, 49, 51, 52),
    "assert 0 < 1 < candidate(9) == 1": becomes("assert 0 < 1 < candidate(9) == {}", 0, 2, 3),
    "assert candidate(9)": {"assert not candidate(9)"},
    "assert not candidate(9)": {"assert candidate(9)"},
    "assert candidate(9) > 1": becomes("assert candidate(9) > {}", 0, 2, 3),
    "expected = kept = 1": becomes("expected = kept = {}", 0, 2, 3),
    "other = 1": set(),
    "candidate(1)": set(),
}


def test_an_expectation_changes_to_a_nearby_value_of_its_type():
    assert {line: forms(check_of("other = 1", line)) for line in CHANGES} == CHANGES


def test_changed_values_include_those_expected_elsewhere_in_the_check():
    check = check_of("assert candidate(1) == 50", "assert candidate(2) == 90", "assert candidate(3) == 'no'")
    lines = forms(check, 200)
    assert becomes("assert candidate(1) == {}", 48, 49, 51, 52, 90) < lines
    assert becomes("assert candidate(2) == {}", 88, 89, 91, 92, 50) < lines
    assert len(lines) == 12


def test_only_expectations_of_a_single_value_change_if_there_are_any():
    check = check_of("assert candidate(1) > 5", "assert candidate(2) == 1", "assert candidate(3) != 3")
    assert forms(check) == becomes("assert candidate(2) == {}", 0, 2, 3)


def test_consecutive_copies_change_different_parts_of_the_check():
    check = check_of(*(f"assert candidate({number}) == {1000 + 10 * number}" for number in range(36)))
    own = ast.unparse(ast.parse(check)).splitlines()
    places = []
    for copy in perturbed(check, Random(0)):
        places += [i - 1 for i, (a, b) in enumerate(zip(own, copy.splitlines(), strict=True)) if a != b]
    assert sorted(places) == list(range(36))
    assert max(places[:12]) - min(places[:12]) > 30


def notes(*pairs: tuple[Any, Any], verdict: str = "passed") -> tuple[dict[str, Any], ...]:
    return (*({"noted": place, "value": encode(value)} for place, value in pairs), {"verdict": verdict})


MET = [
    (notes((0, 6), (1, "ab")), 0, True),
    (({"said": "hm"}, *notes((0, 6), (1, "ab"))), 0, True),
    (notes((0, 6), (1, "ab")), 1, False),
    (notes((0, 6), (1, "ab"), verdict="failed"), 0, False),
    (notes((0, 6)), 0, False),
    (notes((0, 6), (1, "ab"), (1, "ab")), 0, False),
    (notes((1, "ab"), (0, 6)), 0, False),
    (notes((0, 6), (0, "ab")), 0, False),
    (notes((0, 6), (1, "ba")), 0, False),
    (notes((0, 7), (1, "ab")), 0, False),
    (notes((False, 6), (True, "ab")), 0, False),
    (notes((0.0, 6), (1.0, "ab")), 0, False),
    (({"noted": 0, "value": "no encoding"}, *notes((1, "ab"))), 0, False),
    (notes(), 0, False),
]


def test_a_withheld_form_is_met_by_the_right_value_at_each_assert():
    form = Withheld("", ((0, 6), (1, "ab")))

    def is_met(lines: tuple[dict[str, Any], ...], exit_code: int) -> bool:
        return form.is_met(Submission(GOLD, "double"), lambda _: GraderReply(lines, result(exit_code)))

    assert [row for row in MET if is_met(row[0], row[1]) is not row[2]] == []
