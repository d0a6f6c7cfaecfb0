"""Parts of rules: a piece of English with the Python that implements it. Families compose them.

`{x}` in a part stands for its subject: a name in the code, a noun in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

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
class Part:
    """A piece of a rule. Formats as its text."""

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


def int_test(rng: Random) -> Part:
    """Draw a test of an integer: "numbers that ..."."""
    k, low = rng.randint(2, 9), rng.randint(-6, 14)
    high, rest, digit = low + rng.randint(4, 18), rng.randrange(1, k), rng.randrange(10)
    return rng.choice(
        (
            Part("are even", "{x} % 2 == 0"),
            Part("are odd", "{x} % 2 == 1"),
            Part(f"are divisible by {k}", f"{{x}} % {k} == 0"),
            Part(f"are not divisible by {k}", f"{{x}} % {k} != 0"),
            Part(f"leave remainder {rest} when divided by {k} (as `%` in Python)", f"{{x}} % {k} == {rest}"),
            Part(f"are greater than {low}", f"{{x}} > {low}"),
            Part(f"are at least {low}", f"{{x}} >= {low}"),
            Part(f"are less than {high}", f"{{x}} < {high}"),
            Part(f"are at most {high}", f"{{x}} <= {high}"),
            Part(f"are from {low} to {high} (both included)", f"{low} <= {{x}} <= {high}"),
            Part(f"have {digit} as the last digit (the sign does not count)", f"abs({{x}}) % 10 == {digit}"),
            Part(f"have a digit sum above {k} (the sign does not count)", f"sum(map(int, str(abs({{x}})))) > {k}"),
        )
    )


def int_map(rng: Random) -> Part:
    """Draw an expression of an integer: "the square of {x}"."""
    k, other = rng.randint(2, 9), rng.randint(1, 12)
    return rng.choice(
        (
            Part(f"{{x}} plus {other}", f"{{x}} + {other}"),
            Part(f"{{x}} minus {other}", f"{{x}} - {other}"),
            Part(f"{other} minus {{x}}", f"{other} - {{x}}"),
            Part(f"{k} times {{x}}", f"{k} * {{x}}"),
            Part(f"{k} times {{x}}, plus {other}", f"{k} * {{x}} + {other}"),
            Part("the square of {x}", "{x} * {x}"),
            Part(f"the square of {{x}}, minus {other}", f"{{x}} * {{x}} - {other}"),
            Part("the absolute value of {x}", "abs({x})"),
            Part(f"the remainder of {{x}} divided by {k} (as `%` in Python)", f"{{x}} % {k}"),
            Part(f"{{x}} divided by {k}, rounded down", f"{{x}} // {k}"),
            Part(f"the larger of {{x}} and {other}", f"max({{x}}, {other})"),
            Part(f"the smaller of {{x}} and {other}", f"min({{x}}, {other})"),
        )
    )


def two_maps(rng: Random) -> tuple[Part, Part]:
    """Draw two different expressions of an integer."""
    first = int_map(rng)
    for _ in range(20):
        second = int_map(rng)
        if second != first:
            return first, second
    raise AssertionError("the same of dozens of parts was drawn twenty times")


def int_fold(rng: Random, what: str = "them") -> Part:
    """Draw an aggregate of a list of integers: "the sum of them". It is defined for the empty list."""
    none, modulus, k = rng.choice((-1, 0, 100)), rng.choice((97, 101, 997, 1009)), rng.randint(2, 4)
    return rng.choice(
        (
            Part(f"the sum of {what}", "sum({x})"),
            Part(f"the sum of the squares of {what}", "sum(v * v for v in {x})"),
            Part(f"the largest of {what} ({none} if there is none)", f"max({{x}}, default={none})"),
            Part(f"the smallest of {what} ({none} if there is none)", f"min({{x}}, default={none})"),
            Part(f"the sum of the last {k} of {what} (of all, if there are fewer)", f"sum({{x}}[-{k}:])"),
            Part(f"the sum of the {k} largest of {what} (of all, if there are fewer)", f"sum(sorted({{x}})[-{k}:])"),
            Part(f"the sum of the distinct values of {what}", "sum(set({x}))"),
            Part(
                f"the sum of {what}, each multiplied by its position among them (counted from 1)",
                "sum(i * v for i, v in enumerate({x}, 1))",
            ),
            Part(f"{modulus} minus the sum of {what}", f"{modulus} - sum({{x}})"),
        )
    )


def word_test(rng: Random) -> Part:
    """Draw a test of a word: "words that ..."."""
    k, letter, other = rng.randint(2, 5), rng.choice("aeiorstnl"), rng.choice("abcdmnprst")
    some = "".join(sorted(rng.sample("abcdefghilmnoprst", 6)))
    return rng.choice(
        (
            Part(f"have more than {k} characters", f"len({{x}}) > {k}"),
            Part(f"have at most {k + 1} characters", f"len({{x}}) <= {k + 1}"),
            Part(f"have a length that is a multiple of {k}", f"len({{x}}) % {k} == 0"),
            Part(f"have a length that is not a multiple of {k}", f"len({{x}}) % {k} != 0"),
            Part(f"contain the letter {letter!r}", f"{letter!r} in {{x}}"),
            Part(f"do not contain the letter {letter!r}", f"{letter!r} not in {{x}}"),
            Part(f"start with one of the letters {some!r}", f"{{x}}[:1] in tuple({some!r})"),
            Part(f"end in a letter other than {other!r}", f"not {{x}}.endswith({other!r})"),
            Part("have the same character more than once", "len(set({x})) < len({x})"),
            Part("have no character more than once", "len(set({x})) == len({x})"),
            Part(
                f"have more than {k - 1} vowels (of 'aeiou')",
                f"sum(c in {VOWELS!r} for c in {{x}}) > {k - 1}",
            ),
        )
    )


def word_key(rng: Random) -> Part:
    """Draw an order of words without ties: "sorted by ..."; the code is a sort key of `{x}`."""
    letter = rng.choice("aeiorst")
    return rng.choice(
        (
            Part("by length, shortest first, then alphabetically (code points)", "(len({x}), {x})"),
            Part("by length, longest first, then alphabetically (code points)", "(-len({x}), {x})"),
            Part("by last character, then alphabetically (code points)", "({x}[-1:], {x})"),
            Part("by second character (words without one first), then alphabetically", "({x}[1:2], {x})"),
            Part("alphabetically by their reversed spelling (code points)", "{x}[::-1]"),
            Part(
                f"by how often they have {letter!r}, most first, then alphabetically (code points)",
                f"(-{{x}}.count({letter!r}), {{x}})",
            ),
            Part("by number of distinct characters, fewest first, then alphabetically", "(len(set({x})), {x})"),
            Part("alphabetically, without regard to case, equal ones in their order", "{x}.lower()"),
        )
    )


def word_map(rng: Random) -> Part:
    """Draw an expression of a word: "{x} reversed"."""
    k, mark = rng.randint(1, 3), rng.choice("-*_+.")
    return rng.choice(
        (
            Part("{x} in upper case", "{x}.upper()"),
            Part("{x} reversed", "{x}[::-1]"),
            Part(f"the first {k + 1} characters of {{x}}", f"{{x}}[:{k + 1}]"),
            Part(f"the last {k + 1} characters of {{x}}", f"{{x}}[-{k + 1}:]"),
            Part(f"{{x}} without its first {k} character(s)", f"{{x}}[{k}:]"),
            Part(f"{{x}} with {mark!r} before and after", f"{mark!r} + {{x}} + {mark!r}"),
            Part("{x} followed by its length", "{x} + str(len({x}))"),
            Part("{x} with its first character moved to the end", "{x}[1:] + {x}[:1]"),
            Part("{x} with its last character doubled", "{x} + {x}[-1:]"),
        )
    )
