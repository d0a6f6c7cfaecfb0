"""`Search`: makes trajectories by looking ahead, for `RolloutEngine`, `evaluate` and the option `--search`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from agentgym.base.choices import named, nearest
from agentgym.base.errors import BrokenTask, UsageError
from agentgym.base.settings import parse_settings
from agentgym.core.foreign import describe
from agentgym.core.policy import Policy
from agentgym.core.trajectory import Trajectory
from agentgym.rollout.episode import begun, reason_of
from agentgym.rollout.failures import Component, WorkerLost
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.lookahead.cost import SearchCost
from agentgym.rollout.lookahead.explorer import Explorer
from agentgym.rollout.lookahead.line import PlayLine
from agentgym.rollout.lookahead.places import Places, SearchWatch
from agentgym.rollout.lookahead.strategies import Beam, BestOfN, Mcts, Strategy
from agentgym.rollout.lookahead.values import Judge, Majority, Oracle, Signals, Value
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import Workers


class SearchedEpisode:
    """A search over the episodes of one job.

    Args:
        name: The recorded name of the policy with this search.
        strategy: The order of trying lines of play.
        value: Scores lines of play.
        job: The job to search.
        policy: Samples the turns.
        factory: Makes the environments.
        limits: Limits of each turn. `episode_timeout_s` applies to the whole search.
        waits: The waits of the rollout.
        most: Largest number of environments to use at once.
    """

    def __init__(
        self,
        name: str,
        strategy: Strategy,
        value: Value,
        job: Job,
        policy: Policy,
        factory: EnvFactory,
        limits: Limits,
        waits: Waits,
        most: int,
    ):
        self._strategy, self._value, self._job, self._policy, self._limits = strategy, value, job, policy, limits
        self._watch, self._most = SearchWatch(job.id, waits), most
        self._cost = SearchCost(oracle=int(value.is_oracle))
        self._started = time.perf_counter()
        self._trajectory = begun(job, name, factory)

    async def run(self, workers: Workers) -> Trajectory:
        """Search, and return the chosen line. Raises the exception of whatever failed."""
        job, limits, cost = self._job, self._limits, self._cost
        places = Places(workers, job, limits, self._most, cost, self._watch)
        try:
            await places.take()
            explorer = Explorer(job, self._policy, limits, places, cost, self._watch, self._value)
            line = await self._strategy.search(explorer)
        except BaseException:
            await places.discard()
            raise
        await places.close()
        cost.seconds = self._seconds
        return self._recorded(line)

    def failed(self, error: BaseException) -> Trajectory:
        """Return a trajectory without turns, marked as failed."""
        return replace(
            self._trajectory,
            reason=reason_of(error),
            component=self.component_of(error).value,
            error=describe(error),
            seconds=self._seconds,
            search=self._cost.to_dict(),
        )

    def component_of(self, error: BaseException) -> Component:
        """Return the component that failed."""
        if isinstance(error, BrokenTask):
            return Component.TASK
        return Component.WORKER if isinstance(error, WorkerLost) else self._watch.broken or Component.MAKING

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._started

    def _recorded(self, line: PlayLine) -> Trajectory:
        return replace(
            self._trajectory,
            opening=line.opening.messages,
            tools=line.opening.tools,
            turns=list(line.turns),
            reason=line.reason,
            details=dict(line.details),
            counts=dict(line.counts),
            usage=dict(line.usage),
            search=self._cost.to_dict(),
            tokens=line.voice.tokens,
            seconds=line.seconds,
        )


@dataclass(frozen=True)
class Search:
    """A strategy and the value function that it chooses by."""

    strategy: Strategy
    """`BestOfN`, `Beam`, `Mcts`, or one of your own."""
    value: Value = field(default_factory=Majority)
    """`Majority`, `Signals`, `Judge`, one of your own, or `Oracle` for an upper bound."""

    @property
    def name(self) -> str:
        """The search in the notation of `--search`."""
        return f"{self.strategy.name},value={self.value.name}"

    @property
    def places(self) -> int:
        """Largest number of environments that one search uses at once."""
        return self.strategy.places

    def named(self, policy: str) -> str:
        """Return the name under which results of a policy with this search are recorded."""
        return f"{policy} with {self.name}"

    def attempt(
        self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits, places: int
    ) -> SearchedEpisode:
        """Return a search for one job."""
        name = self.named(policy.name)
        return SearchedEpisode(name, self.strategy, self.value, job, policy, factory, limits, waits, places)


FLAG = "--search"
STRATEGIES: Mapping[str, type[Any]] = {"best-of-n": BestOfN, "beam": Beam, "mcts": Mcts}
VALUES: Mapping[str, type[Any]] = {"majority": Majority, "signals": Signals, "judge": Judge, "oracle": Oracle}
_FIRST = {"best-of-n": "n"}
"""The setting that may be a bare number after the strategy's name."""
_NEXT = re.compile(r",(?=\s*[\w-]+=)")
"""Where one setting ends and the next begins. Commas in lists and addresses stay."""
_NOT_TYPED = frozenset({"policy", "limits"})
_JUDGE = "judge"

LoadJudge = Callable[[str | None], Policy]
"""Loads the judging policy by name; without a name, the playing policy judges."""


@dataclass(frozen=True)
class TypedSearch:
    """A search as typed, before its judge is loaded."""

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
        """The name of the judging policy, if it has one."""
        return self.settings.get(_JUDGE)

    def loaded(self, load_judge: LoadJudge) -> Search:
        """Return the search.

        Args:
            load_judge: Loads the judge, if there is one.

        Raises:
            UsageError: A setting is invalid, or the judge is not a model.
        """
        settings = dict(self.settings)
        if self.value == _JUDGE:
            settings["policy"] = load_judge(settings.pop(_JUDGE, None))
        return Search(self.strategy, VALUES[self.value](**settings))


def read_search(text: str) -> TypedSearch:
    """Parse the argument of `--search`: `STRATEGY[:[N,]KEY=VALUE,...]`.

    The settings are those of the strategy (`BestOfN`, `Beam`, `Mcts`), `value` with the name of a value function, and
    its settings.

    Raises:
        UsageError: A strategy, value function, setting or value is unknown or invalid.
    """
    name, _, rest = text.strip().partition(":")
    kind = named("search", name, STRATEGIES)
    settings = parse_settings(_pairs(name, rest), FLAG)
    value = str(settings.pop("value", "majority"))
    own, values = _names(kind), _names(named("value function", value, VALUES))
    values += [_JUDGE] if value == _JUDGE else []
    for key in settings:
        if key not in (*own, *values):
            names = [*own, "value", *values]
            unknown = f"{FLAG} {name} with value={value} has no setting {key!r}{nearest(key, names)}"
            raise UsageError(f"{unknown} There are: {', '.join(names)}")
    _check_missing(kind, settings, name)
    strategy = kind(**{key: settings[key] for key in own if key in settings})
    return TypedSearch(strategy, value, {key: settings[key] for key in values if key in settings})


def _pairs(name: str, rest: str) -> Sequence[str]:
    """Return `KEY=VALUE` for each setting; the first may be typed as a bare number."""
    parts = _NEXT.split(rest) if rest.strip() else []
    if parts and "=" not in parts[0] and name in _FIRST:
        parts[0] = f"{_FIRST[name]}={parts[0]}"
    return parts


def _names(kind: type[Any]) -> list[str]:
    return [setting.name for setting in fields(kind) if setting.name not in _NOT_TYPED]


def _check_missing(kind: type[Any], settings: Mapping[str, Any], name: str) -> None:
    for setting in fields(kind):
        if setting.default is MISSING and setting.name not in settings:
            raise UsageError(f"{FLAG} {name} needs a number: {name}:8")
