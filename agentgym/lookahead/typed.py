"""Searches as they are typed: `best-of-n:8`, `beam:width=4,branch=3`, `mcts:iterations=32,value=judge,ask=vote`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from agentgym.choices import named, nearest
from agentgym.errors import UsageError
from agentgym.lookahead.beam import Beam
from agentgym.lookahead.best_of_n import BestOfN
from agentgym.lookahead.judge import Judge
from agentgym.lookahead.majority import Majority
from agentgym.lookahead.mcts import Mcts
from agentgym.lookahead.oracle import Oracle
from agentgym.lookahead.search import Search
from agentgym.lookahead.signals import Signals
from agentgym.policy import Policy
from agentgym.settings import parse_settings

FLAG = "--search"
STRATEGIES: Mapping[str, type[Any]] = {"best-of-n": BestOfN, "beam": Beam, "mcts": Mcts}
VALUES: Mapping[str, type[Any]] = {"majority": Majority, "signals": Signals, "judge": Judge, "oracle": Oracle}
_FIRST = {"best-of-n": "n"}
"""The setting that may be given as a bare number after the strategy's name."""
_NEXT = re.compile(r",(?=\s*[\w-]+=)")
"""Where one setting ends and the next begins. Commas in lists and addresses stay."""
_NOT_TYPED = frozenset({"policy", "limits"})
_JUDGE = "judge"

LoadJudge = Callable[[str | None], Policy]
"""Loads the policy that judges: the named one, or without a name the one that plays."""


@dataclass(frozen=True)
class TypedSearch:
    """A search as typed, whose judge is not loaded yet."""

    strategy: Any
    value: str
    settings: Mapping[str, Any]
    """Settings of the value function, and `judge`, the name of a policy."""

    @property
    def name(self) -> str:
        """The search as typed, with all settings of its strategy."""
        settings = "".join(f",{key}={value}" for key, value in self.settings.items())
        return f"{self.strategy.name},value={self.value}{settings}"

    @property
    def judge(self) -> str | None:
        """The name of the policy that judges, if one is named."""
        return self.settings.get(_JUDGE)

    def loaded(self, load_judge: LoadJudge) -> Search:
        """Return the search.

        Args:
            load_judge: Loads the judge, if there is one.

        Raises:
            UsageError: A setting is wrong, or the judge is no model.
        """
        settings = dict(self.settings)
        if self.value == _JUDGE:
            settings["policy"] = load_judge(settings.pop(_JUDGE, None))
        return Search(self.strategy, VALUES[self.value](**settings))


def read_search(text: str) -> TypedSearch:
    """Read what was typed after `--search`: `STRATEGY[:[N,]KEY=VALUE,...]`.

    The settings are those of the strategy (`BestOfN`, `Beam`, `Mcts`), `value` with the name of a value function, and
    the settings of that one.

    Raises:
        UsageError: There is no such strategy, value function or setting, or a value cannot be used.
    """
    name, _, rest = text.strip().partition(":")
    kind = named("search", name, STRATEGIES)
    given = parse_settings(_pairs(name, rest), FLAG)
    value = str(given.pop("value", "majority"))
    own, values = _names(kind), _names(named("value function", value, VALUES))
    values += [_JUDGE] if value == _JUDGE else []
    for key in given:
        if key not in (*own, *values):
            known = [*own, "value", *values]
            unknown = f"{FLAG} {name} with value={value} has no setting {key!r}{nearest(key, known)}"
            raise UsageError(f"{unknown} There are: {', '.join(known)}")
    _check_missing(kind, given, name)
    strategy = kind(**{key: given[key] for key in own if key in given})
    return TypedSearch(strategy, value, {key: given[key] for key in values if key in given})


def _pairs(name: str, rest: str) -> Sequence[str]:
    """Return `KEY=VALUE` for each setting, the first of which may be the strategy's number."""
    parts = _NEXT.split(rest) if rest.strip() else []
    if parts and "=" not in parts[0] and name in _FIRST:
        parts[0] = f"{_FIRST[name]}={parts[0]}"
    return parts


def _names(kind: type[Any]) -> list[str]:
    return [one.name for one in fields(kind) if one.name not in _NOT_TYPED]


def _check_missing(kind: type[Any], given: Mapping[str, Any], name: str) -> None:
    for one in fields(kind):
        if one.default is MISSING and one.name not in given:
            raise UsageError(f"{FLAG} {name} needs a number: {name}:8")
