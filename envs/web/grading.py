"""Grades an episode on a bundled site by the server's state, and by the answer if the task asks for one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.tasks.web.sites import SiteEpisode, digest_after

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_CURRENCY = "$€£ "
_ENDS = " \t\n.!,;:\"'“”‘’"


def is_done(episode: SiteEpisode, effect: Sequence[Any]) -> bool:
    """Whether the state is exactly the result of `effect`."""
    expected = digest_after(episode.site, episode.seed, [(sql, params) for sql, params in effect], episode.options)
    return episode.digest() == expected


def which_hold(episode: SiteEpisode, checks: Sequence[Mapping[str, str]]) -> list[bool]:
    """Return which progress predicates hold."""
    return [bool(episode.query(check["sql"])[0][0]) for check in checks]


def progress(before: Sequence[bool], now: Sequence[bool]) -> float:
    """Return the share of the initially false predicates that hold now; 0 if all held initially."""
    open_ones = [done for at_first, done in zip(before, now, strict=True) if not at_first]
    return sum(open_ones) / len(open_ones) if open_ones else 0.0


def answers_agree(answer: str | None, expected: str) -> bool:
    """Whether two answers agree: as numbers if both are, else as text without case and outer punctuation."""
    if answer is None:
        return False
    numbers = _number(answer), _number(expected)
    if None not in numbers:
        return numbers[0] == numbers[1]
    return _plain(answer) == _plain(expected)


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(_ENDS).casefold()


def _number(text: str) -> float | None:
    stripped = text.strip(_ENDS).strip(_CURRENCY)
    return float(stripped.replace(",", "")) if _NUMBER.fullmatch(stripped) else None
