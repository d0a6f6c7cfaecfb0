"""Parts of rules: a piece of English with the Python that implements it. Families compose them.

`{x}` in a part stands for its subject: a name in the code, a noun in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentgym.base.choices import count_of

_ONE = {
    "are": "is",
    "have": "has",
    "leave": "leaves",
    "contain": "contains",
    "start": "starts",
    "end": "ends",
    "do": "does",
}
VOWELS = "aeiou"


@dataclass(frozen=True)
class Clause:
    """A clause of a rule, in words and in code. Formats as its words."""

    text: str
    code: str

    def of(self, name: str) -> str:
        """Return the code about a name."""
        return self.code.replace("{x}", name)

    def say(self, noun: str) -> str:
        """Return the text about a noun."""
        return self.text.replace("{x}", noun)

    @property
    def one(self) -> str:
        """The text of a test as it follows a singular noun."""
        first, _, rest = self.text.partition(" ")
        return f"{_ONE[first]} {rest}"

    def __str__(self) -> str:
        return self.text


def int_test(rng: Random) -> Clause:
    """Draw a test of an integer: "numbers that ..."."""
    k, low = rng.randint(2, 9), rng.randint(-6, 14)
    high, rest, digit = low + rng.randint(4, 18), rng.randrange(1, k), rng.randrange(10)
    return rng.choice(
        (
            Clause("are even", "{x} % 2 == 0"),
            Clause("are odd", "{x} % 2 == 1"),
            Clause(f"are divisible by {k}", f"{{x}} % {k} == 0"),
            Clause(f"are not divisible by {k}", f"{{x}} % {k} != 0"),
            Clause(
                f"leave a remainder of {rest} when divided by {k} (as with `%` in Python)", f"{{x}} % {k} == {rest}"
            ),
            Clause(f"are greater than {low}", f"{{x}} > {low}"),
            Clause(f"are at least {low}", f"{{x}} >= {low}"),
            Clause(f"are less than {high}", f"{{x}} < {high}"),
            Clause(f"are at most {high}", f"{{x}} <= {high}"),
            Clause(f"are between {low} and {high} (inclusive)", f"{low} <= {{x}} <= {high}"),
            Clause(f"end in the digit {digit} (ignoring the sign)", f"abs({{x}}) % 10 == {digit}"),
            Clause(f"have a digit sum above {k} (ignoring the sign)", f"sum(map(int, str(abs({{x}})))) > {k}"),
        )
    )


def int_map(rng: Random) -> Clause:
    """Draw an expression of an integer: "the square of {x}". Formulas replace words that would need a comma."""
    k, other = rng.randint(2, 9), rng.randint(1, 12)
    return rng.choice(
        (
            Clause(f"{{x}} plus {other}", f"{{x}} + {other}"),
            Clause(f"{{x}} minus {other}", f"{{x}} - {other}"),
            Clause(f"{other} minus {{x}}", f"{other} - {{x}}"),
            Clause(f"{k} times {{x}}", f"{k} * {{x}}"),
            Clause(f"`{k} * {{x}} + {other}`", f"{k} * {{x}} + {other}"),
            Clause("the square of {x}", "{x} * {x}"),
            Clause(f"`{{x}} * {{x}} - {other}`", f"{{x}} * {{x}} - {other}"),
            Clause("the absolute value of {x}", "abs({x})"),
            Clause(f"`{{x}} % {k}`", f"{{x}} % {k}"),
            Clause(f"`{{x}} // {k}`", f"{{x}} // {k}"),
            Clause(f"the larger of {{x}} and {other}", f"max({{x}}, {other})"),
            Clause(f"the smaller of {{x}} and {other}", f"min({{x}}, {other})"),
        )
    )


def two_maps(rng: Random) -> tuple[Clause, Clause]:
    """Draw two different expressions of an integer."""
    first = int_map(rng)
    for _ in range(20):
        second = int_map(rng)
        if second != first:
            return first, second
    raise AssertionError("the same of dozens of parts was drawn twenty times")


def int_fold(rng: Random, what: str = "them") -> Clause:
    """Draw an aggregate of a list of integers: "the sum of them". It is defined for the empty list."""
    none, modulus, k = rng.choice((-1, 0, 100)), rng.choice((97, 101, 997, 1009)), rng.randint(2, 4)
    return rng.choice(
        (
            Clause(f"the sum of {what}", "sum({x})"),
            Clause(f"the sum of the squares of {what}", "sum(v * v for v in {x})"),
            Clause(f"the largest of {what} ({none} if there is none)", f"max({{x}}, default={none})"),
            Clause(f"the smallest of {what} ({none} if there is none)", f"min({{x}}, default={none})"),
            Clause(f"the sum of the last {k} of {what} (of all, if there are fewer)", f"sum({{x}}[-{k}:])"),
            Clause(f"the sum of the {k} largest of {what} (of all, if there are fewer)", f"sum(sorted({{x}})[-{k}:])"),
            Clause(f"the sum of the distinct values of {what}", "sum(set({x}))"),
            Clause(
                f"the sum of {what}, each multiplied by its position among them (counted from 1)",
                "sum(i * v for i, v in enumerate({x}, 1))",
            ),
            Clause(f"{modulus} minus the sum of {what}", f"{modulus} - sum({{x}})"),
        )
    )


def word_test(rng: Random) -> Clause:
    """Draw a test of a word: "words that ..."."""
    k, letter, other = rng.randint(2, 5), rng.choice("aeiorstnl"), rng.choice("abcdmnprst")
    letters = "".join(sorted(rng.sample("abcdefghilmnoprst", 6)))
    return rng.choice(
        (
            Clause(f"have more than {k} characters", f"len({{x}}) > {k}"),
            Clause(f"have at most {k + 1} characters", f"len({{x}}) <= {k + 1}"),
            Clause(f"have a length that is a multiple of {k}", f"len({{x}}) % {k} == 0"),
            Clause(f"have a length that is not a multiple of {k}", f"len({{x}}) % {k} != 0"),
            Clause(f"contain the letter {letter!r}", f"{letter!r} in {{x}}"),
            Clause(f"do not contain the letter {letter!r}", f"{letter!r} not in {{x}}"),
            Clause(f"start with one of the letters {letters!r}", f"{{x}}[:1] in tuple({letters!r})"),
            Clause(f"do not end in {other!r}", f"not {{x}}.endswith({other!r})"),
            Clause("contain some character more than once", "len(set({x})) < len({x})"),
            Clause("do not contain any character more than once", "len(set({x})) == len({x})"),
            Clause(
                f"have more than {count_of(k - 1, 'vowel')} (of 'aeiou')",
                f"sum(c in {VOWELS!r} for c in {{x}}) > {k - 1}",
            ),
        )
    )


def word_key(rng: Random) -> Clause:
    """Draw an order of words without ties: "sorted by ..."; the code is a sort key of `{x}`."""
    letter = rng.choice("aeiorst")
    return rng.choice(
        (
            Clause("by length, shortest first, then alphabetically (code points)", "(len({x}), {x})"),
            Clause("by length, longest first, then alphabetically (code points)", "(-len({x}), {x})"),
            Clause("by last character, then alphabetically (code points)", "({x}[-1:], {x})"),
            Clause("by second character (words without one first), then alphabetically", "({x}[1:2], {x})"),
            Clause("alphabetically by their reversed spelling (code points)", "{x}[::-1]"),
            Clause(
                f"by how often they contain {letter!r}, most first, then alphabetically (code points)",
                f"(-{{x}}.count({letter!r}), {{x}})",
            ),
            Clause("by number of distinct characters, fewest first, then alphabetically", "(len(set({x})), {x})"),
            Clause("alphabetically, ignoring case (ties stay in their original order)", "{x}.lower()"),
        )
    )


def word_map(rng: Random) -> Clause:
    """Draw an expression of a word: "{x} reversed"."""
    k, mark = rng.randint(1, 3), rng.choice("-*_+.")
    return rng.choice(
        (
            Clause("{x} in upper case", "{x}.upper()"),
            Clause("{x} reversed", "{x}[::-1]"),
            Clause(f"the first {k + 1} characters of {{x}}", f"{{x}}[:{k + 1}]"),
            Clause(f"the last {k + 1} characters of {{x}}", f"{{x}}[-{k + 1}:]"),
            Clause(f"{{x}} without its first {'character' if k == 1 else f'{k} characters'}", f"{{x}}[{k}:]"),
            Clause(f"{{x}} with {mark!r} before and after", f"{mark!r} + {{x}} + {mark!r}"),
            Clause("{x} followed by its length", "{x} + str(len({x}))"),
            Clause("{x} with its first character moved to the end", "{x}[1:] + {x}[:1]"),
            Clause("{x} with its last character doubled", "{x} + {x}[-1:]"),
        )
    )
