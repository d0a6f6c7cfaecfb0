"""Ranges of versions in the notation of npm and Cargo."""

import re
from dataclasses import dataclass

from rangever.errors import RangeSyntaxError
from rangever.version import Version

_PARTIAL = re.compile(r"v?(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?(?:-([0-9A-Za-z.-]+))?")
_TERM = re.compile(r"(\^|~|>=|<=|>|<|=)?\s*([^\s,<>=~^|]+)")
_TESTS = {
    ">=": lambda version, bound: version >= bound,
    "<=": lambda version, bound: version <= bound,
    ">": lambda version, bound: version > bound,
    "<": lambda version, bound: version < bound,
    "=": lambda version, bound: version == bound,
}


@dataclass(frozen=True)
class Comparator:
    """One bound, such as `>=1.2.0`."""

    operator: str
    bound: Version

    def matches(self, version):
        """Whether a version keeps to the bound."""
        return _TESTS[self.operator](version, self.bound)

    def __str__(self):
        return f"{self.operator}{self.bound}"


def _wild(part):
    return part is None or part in "xX*"


def _partial(text):
    """Return the numbers of a version that may be cut short, and its prerelease."""
    found = _PARTIAL.fullmatch(text)
    if found is None:
        raise RangeSyntaxError(f"not a version in a range: {text!r}")
    numbers = []
    for part in found.groups()[:3]:
        if _wild(part):
            break
        numbers.append(int(part))
    return numbers, found[4]


def _full(numbers, prerelease=None):
    padded = [*numbers, 0, 0, 0][:3]
    text = ".".join(str(number) for number in padded)
    return Version.parse(f"{text}-{prerelease}" if prerelease else text)


def _next(numbers, place):
    """Return the first version after all that begin with the numbers up to `place`."""
    raised = [*numbers[:place], numbers[place] + 1]
    return _full(raised)


def _caret(numbers, prerelease):
    low = Comparator(">=", _full(numbers, prerelease))
    # The leftmost number that is not zero must stay.
    place = next((index for index, number in enumerate(numbers) if number), len(numbers) - 1)
    return [low, Comparator("<", _next(numbers, place))]


def _tilde(numbers, prerelease):
    place = min(1, len(numbers) - 1)
    return [Comparator(">=", _full(numbers, prerelease)), Comparator("<", _next(numbers, place))]


def _term(operator, text):
    numbers, prerelease = _partial(text)
    if not numbers:
        if operator in ("<", ">"):
            raise RangeSyntaxError(f"nothing is {operator} every version")
        return []
    if operator == "^":
        return _caret(numbers, prerelease)
    if operator == "~":
        return _tilde(numbers, prerelease)
    if len(numbers) == 3:
        return [Comparator(operator or "=", _full(numbers, prerelease))]
    after = _next(numbers, len(numbers) - 1)
    if operator == ">":
        return [Comparator(">=", after)]
    if operator == "<=":
        return [Comparator("<", after)]
    if operator in (">=", "<"):
        return [Comparator(operator, _full(numbers))]
    return [Comparator(">=", _full(numbers)), Comparator("<", after)]


class Range:
    """Alternatives, each a list of bounds that must all hold."""

    def __init__(self, alternatives, text=""):
        self.alternatives = [list(bounds) for bounds in alternatives]
        self.text = text

    @classmethod
    def parse(cls, text):
        """Read a range such as `^1.2`, `>=1 <3` or `1.x || 2.5.0`. Raises `RangeSyntaxError`."""
        alternatives = []
        for part in text.split("||"):
            bounds = []
            rest = part.strip()
            if not rest:
                rest = "*"
            hyphen = re.fullmatch(r"(\S+)\s+-\s+(\S+)", rest)
            if hyphen:
                bounds += _term(">=", hyphen[1]) + _term("<=", hyphen[2])
                alternatives.append(bounds)
                continue
            while rest:
                found = _TERM.match(rest)
                if found is None:
                    raise RangeSyntaxError(f"cannot read {rest!r} in range {text!r}")
                bounds += _term(found[1], found[2])
                rest = rest[found.end() :].lstrip(" ,")
            alternatives.append(bounds)
        return cls(alternatives, text)

    def __contains__(self, version):
        if isinstance(version, str):
            version = Version.parse(version)
        return any(self._allows(bounds, version) for bounds in self.alternatives)

    @staticmethod
    def _allows(bounds, version):
        if not all(bound.matches(version) for bound in bounds):
            return False
        if not version.is_prerelease:
            return True
        # Prereleases count only where a bound of the same release asks for them.
        return any(bound.bound.is_prerelease and bound.bound.release == version.release for bound in bounds)

    def __str__(self):
        shown = [" ".join(str(bound) for bound in bounds) or "*" for bounds in self.alternatives]
        return " || ".join(shown)

    def __repr__(self):
        return f"Range.parse({str(self)!r})"
