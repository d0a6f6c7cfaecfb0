"""The verdict on an episode of a bundled site: the server's state, and the answer where one is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.tools.sites import SiteEpisode, digest_after

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_CURRENCY = "$€£ "
_ENDS = " \t\n.!,;:\"'“”‘’"


def is_done(episode: SiteEpisode, effect: Sequence[Any]) -> bool:
    """Whether the state is exactly the one that `effect` leads to: all of it done, and nothing else."""
    wanted = digest_after(episode.site, episode.seed, [(sql, params) for sql, params in effect], episode.options)
    return episode.digest() == wanted


def held(episode: SiteEpisode, checks: Sequence[Mapping[str, str]]) -> list[bool]:
    """Return which progress predicates hold."""
    return [bool(episode.query(check["sql"])[0][0]) for check in checks]


def progress(before: Sequence[bool], now: Sequence[bool]) -> float:
    """Return the share of the predicates that did not hold at first and do now; 0 where there is none."""
    open_ones = [done for at_first, done in zip(before, now, strict=True) if not at_first]
    return sum(open_ones) / len(open_ones) if open_ones else 0.0


def answers_agree(said: str | None, wanted: str) -> bool:
    """Whether two answers say the same: as numbers if both are, else as text but for case and outer punctuation."""
    if said is None:
        return False
    numbers = _number(said), _number(wanted)
    if None not in numbers:
        return numbers[0] == numbers[1]
    return _plain(said) == _plain(wanted)


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(_ENDS).casefold()


def _number(text: str) -> float | None:
    stripped = text.strip(_ENDS).strip(_CURRENCY)
    return float(stripped.replace(",", "")) if _NUMBER.fullmatch(stripped) else None
