"""Text of a model that may reach a grader that evaluates it as Python."""

from __future__ import annotations

import sys

import pytest

from agentgym.interop.envs.bounded_evaluation import TooMuchWork, bounded_work, is_harmless_formula, is_harmless_value
from tests.rows import each_row


@each_row(
    "text",
    ["6*(98 - 54) - 34 - 66", "-5*X**9 - 2*X**6/3 + 4*X**3 + C", "2*(3*x - 1)**(3/2)/9 + C", "x**n + exp(2*x)*sin(x)"],
)
def test_usual_formulas_are_harmless(text: str):
    assert is_harmless_formula(text)


@each_row(
    "text",
    [
        "__import__('os').getpid()", "x.diff(x)", "exp(open('x'))", "lambda: 1", "[x for x in y]", "'a'*9", "x__y",
        "9**9**9", "((x + 1)**99)**99", "exp(exp(exp(9)))", "9!", "0.2[1]", "9" * 40, "1e400", "1+" * 4_000 + "1",
        "(" * 900, "x**(9*9*9)", "1 if x else 2",
    ],
)  # fmt: skip
def test_code_and_unbounded_growth_are_not_harmless_formulas(text: str):
    assert not is_harmless_formula(text)


@each_row("text", ["[[0, 1], [1, 0]]", "['_', 'Q']", "(-1, +2)", "ABCD", "", "(" * 900])
def test_values_and_text_that_is_not_python_are_harmless(text: str):
    assert is_harmless_value(text)


COMPUTATIONS = (
    "open('x')", "'a'*10**9", "[x for x in y]", "x.y", "x[0]", "f'{x}'", "[*x]", "(y := 1)", "oracle_answer", "[entry]"
)  # fmt: skip


@each_row("text", COMPUTATIONS)
def test_computations_are_not_harmless_values(text: str):
    assert not is_harmless_value(text)


def test_endless_work_is_stopped_even_if_it_catches_every_exception():
    def step() -> None:
        pass

    def work() -> None:
        while True:
            try:
                step()
            except Exception:
                continue

    before = sys.gettrace()
    with pytest.raises(TooMuchWork), bounded_work(1_000):
        work()
    assert sys.gettrace() is before
    with bounded_work(1_000):
        assert sorted(map(abs, [-3, 1])) == [1, 3]
