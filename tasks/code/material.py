"""Material for arguments and prompts: random numbers, words, sentences, dates and graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from random import Random

from agentgym.tasks.code.families import Arguments
from agentgym.tasks.data_files import read_data

_LISTS: dict[str, list[str]] = read_data("code", "words")
WORDS, NAMES, ITEMS = _LISTS["words"], _LISTS["names"], _LISTS["items"]
INT_LISTS: tuple[Arguments, ...] = (
    ([],),
    ([0],),
    ([-4],),
    ([5, 5, 5],),
    ([3, -1, 0, -7, 12, 3],),
    ([10, 9, 8, 7, 6, 5, 4, 3, 2, 1],),
)
"""Edge cases for a function of one list of integers."""
TEXTS: tuple[Arguments, ...] = (("",), ("a",), ("  ",), ("Éa b7 Zz!",), ("aAbB 1122 eeEE",), ("über-naïve 42",))
"""Edge cases for a function of one text."""


def ints(rng: Random, least: int = 3, most: int = 9, low: int = -12, high: int = 30) -> list[int]:
    """Draw a list of integers, sometimes with repeats."""
    numbers = [rng.randint(low, high) for _ in range(rng.randint(least, most))]
    if rng.random() < 0.4:
        numbers.insert(rng.randint(0, len(numbers)), rng.choice(numbers))
    return numbers


def words(rng: Random, least: int = 3, most: int = 8) -> list[str]:
    """Draw a list of words, sometimes with repeats."""
    items = [rng.choice(WORDS) for _ in range(rng.randint(least, most))]
    if rng.random() < 0.4:
        items.append(rng.choice(items))
    return items


def sentence(rng: Random) -> str:
    """Draw a text with words, numbers and marks."""
    parts = [str(rng.randint(0, 99)) if rng.random() < 0.2 else rng.choice(WORDS) for _ in range(rng.randint(2, 6))]
    parts = [part.upper() if rng.random() < 0.2 else part for part in parts]
    return rng.choice((" ", " ", "-", ", ")).join(parts) + rng.choice(("", "!", "?", "..."))


def letters(rng: Random, alphabet: str, least: int, most: int) -> str:
    """Draw a string over an alphabet."""
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(least, most)))


def day(rng: Random, first: int = 1996, last: int = 2031) -> date:
    """Draw a date between the starts of two years, month ends more often than other days."""
    result = date(first, 1, 1) + timedelta(days=rng.randrange((last - first) * 365))
    return result.replace(day=1) - timedelta(days=1) if rng.random() < 0.15 and result.year > first else result


def clock(rng: Random) -> str:
    """Draw a time of day, `HH:MM`."""
    return f"{rng.randrange(24):02}:{rng.choice((0, 5, 15, 29, 30, 31, 45, 59, rng.randrange(60))):02}"


def edge_list(rng: Random, directed: bool = False, weights: tuple[int, int] | None = None) -> list[tuple[int, ...]]:
    """Draw distinct edges of a graph on a few numbered nodes."""
    nodes = rng.randint(4, 8)
    pairs = [(a, b) for a in range(nodes) for b in range(nodes) if (a != b if directed else a < b)]
    edges = rng.sample(pairs, min(len(pairs), rng.randint(nodes - 1, 2 * nodes)))
    return [(*pair, rng.randint(*weights)) for pair in edges] if weights else list(edges)


def one_list(least: int = 3, most: int = 9, low: int = -12, high: int = 30) -> Callable[[Random], Arguments]:
    """Return a function that draws the arguments of a function of one list of integers."""
    return lambda rng: (ints(rng, least, most, low, high),)


def one_text(rng: Random) -> Arguments:
    """Draw the arguments of a function of one text."""
    return (sentence(rng),)


def nth(number: int) -> str:
    """Return an ordinal: 1st, 2nd, 3rd, 4th."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def day_count(number: int) -> str:
    """Return a number of days: 1 day, 2 days."""
    return f"{number} day{'' if number == 1 else 's'}"


def listed(values: Sequence[object]) -> str:
    """Return values as an English list: `a, b and c`."""
    texts = [str(value) for value in values]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
