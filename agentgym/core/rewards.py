"""Reward channels, and schemes that combine them into one reward: channels → gates → weights, in this order.

A channel is a named quantity that an environment measures in a turn. A `Scheme` weighs the channels; with a `Gate`,
some of them count only once another has reached a value (Gated Reward Accumulation, arXiv 2508.10548). `lint` refuses
schemes that can pay more for a wrong outcome than for a right one, or for idle actions than for real work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from agentgym.base.errors import UsageError

OUTCOME = "outcome"
"""The channel that says whether the task was solved; every environment has it."""

SOLVED_AT = 1.0
"""Minimum outcome of a success."""


@dataclass(frozen=True)
class Channel:
    """Description of a channel and the range of its value in one turn."""

    description: str
    low: float = 0.0
    high: float = 1.0
    per_turn: bool = False
    """Whether it is earned in every turn, instead of once per episode. Schemes average such costs and cap the sum of
    such gains."""
    cheap: bool = False
    """Whether any legal action can earn it: readable, ran, valid, submitted. Schemes pay it only behind a gate on real
    work."""
    per_call: bool = False
    """Whether each call of a turn adds to it, such as a cost per call. The range is then that of one call."""

    def for_calls(self, calls: int) -> Channel:
        """Return the channel with its range in turns of up to `calls` calls."""
        return replace(self, low=self.low * calls, high=self.high * calls) if self.per_call else self

    def can_gain(self, weight: float) -> bool:
        """Whether some value of the channel is worth more than 0 at this weight."""
        return max(weight * self.low, weight * self.high) > 0.0


@dataclass(frozen=True)
class Gate:
    """The channels `opens` count only where channel `on` is at least `at_least`; elsewhere they are 0.

    Gates apply in order and read the values that earlier gates left, so they chain.
    """

    on: str
    at_least: float
    opens: tuple[str, ...]
    scope: Literal["trajectory", "turn", "past"] = "trajectory"
    """Which value of `on` decides: the sum over the episode, the value in this turn, or the best in earlier turns."""
    strict: bool = False
    """Require more than `at_least`."""

    def deciding(self, values: Sequence[float], turn: int) -> float:
        """Return the value that decides in `turn`, given the values of `on` in every turn."""
        if self.scope == "trajectory":
            return sum(values)
        return values[turn] if self.scope == "turn" else max(values[:turn], default=float("-inf"))

    def is_open(self, values: Sequence[float], turn: int) -> bool:
        """Whether the gate is open in `turn`, given the values of `on` in every turn."""
        value = self.deciding(values, turn)
        return value > self.at_least if self.strict else value >= self.at_least

    def is_shut_below(self, value: float) -> bool:
        """Whether the gate is shut wherever `on` is at most `value`."""
        return self.at_least >= value if self.strict else self.at_least > value


@dataclass(frozen=True)
class GateState:
    """State of a gate in one turn."""

    value: float
    """The value that was compared with `Gate.at_least`; minus infinity without an earlier turn."""
    open: bool


Turns = Sequence[Mapping[str, float]]
"""Raw channel values, one mapping per turn; missing channels are 0."""


@dataclass(frozen=True)
class Scheme:
    """Weights and gates over channels. Channels without a weight are reported but not paid."""

    weights: Mapping[str, float] = field(default_factory=lambda: {OUTCOME: 1.0})
    gates: tuple[Gate, ...] = ()
    averaged: frozenset[str] = frozenset()
    """Channels that pay their mean over the turns instead of their sum. Use it for costs, and for pay that only solved
    episodes get: otherwise a failed episode would earn more by ending sooner."""
    capped: Mapping[str, float] = field(default_factory=dict)
    """Channels whose sum over the turns counts up to a cap: progress, paid when it is first made."""
    in_full: frozenset[str] = frozenset()
    """Channels that count as 1 over a solved episode, unless a gate is shut. Use it for channels that compare the
    policy's way with a reference: otherwise another way that solves the task, perhaps a shorter one, earns less."""
    allow_unsound: bool = False
    """Accept a scheme that `lint` refuses, e.g. to reproduce the collapse of direct accumulation."""

    @cached_property
    def _weights(self) -> tuple[tuple[str, float], ...]:
        return tuple(self.weights.items())

    @cached_property
    def is_simple(self) -> bool:
        """Whether a turn's pay depends on that turn alone."""
        return not (self.gates or self.averaged or self.capped or self.in_full)

    def ungated(self) -> Scheme:
        """Return the scheme without its gates and `in_full`: direct accumulation, the control of G-RA.

        It may reward stalling, so it sets `allow_unsound`.
        """
        return replace(self, gates=(), in_full=frozenset(), allow_unsound=True)

    def without(self, channel: str) -> Scheme:
        """Return a scheme that does not pay `channel`, though its gates still read it."""
        return replace(self, weights={name: weight for name, weight in self.weights.items() if name != channel})

    def gated(self, turns: Turns) -> list[dict[str, float]]:
        """Return the channel values, with 0 for channels behind closed gates."""
        return self.trace(turns)[0]

    def trace(self, turns: Turns) -> tuple[list[dict[str, float]], list[list[GateState]]]:
        """Return the channel values, with 0 for channels behind closed gates, and the state of each gate in each turn.

        The states of a turn are in the order of `gates`.
        """
        values = [dict(turn) for turn in turns]
        states: list[list[GateState]] = [[] for _ in turns]
        for gate in self.gates:
            source = [turn.get(gate.on, 0.0) for turn in values]
            for index, turn in enumerate(values):
                state = GateState(gate.deciding(source, index), gate.is_open(source, index))
                states[index].append(state)
                if not state.open:
                    turn.update((name, 0.0) for name in gate.opens if name in turn)
        return values, states

    def turn_rewards(self, turns: Turns) -> list[float]:
        """Return the reward of each turn, given the whole episode; the sum is the episode's reward."""
        return [sum(turn.values()) for turn in self.contributions(turns)]

    def contributions(self, turns: Turns) -> list[dict[str, float]]:
        """Return what each channel adds to the reward of each turn, given the whole episode."""
        values, states = self.trace(turns) if self.gates else (turns, [])
        if self.capped:
            values = self._below_caps(values)
        if self._pays_in_full(turns):
            values = self._filled(values, states[-1] if states else ())
        count = max(1, len(turns))
        scale = {name: weight / count if name in self.averaged else weight for name, weight in self.weights.items()}
        return [{name: scale[name] * value for name, value in turn.items() if name in scale} for turn in values]

    def _below_caps(self, turns: Turns) -> list[dict[str, float]]:
        """Return the channel values, with capped channels reduced to the part that stays below the cap."""
        values = [dict(turn) for turn in turns]
        for name, cap in self.capped.items():
            total = 0.0
            for turn in values:
                if name in turn:
                    before, total = min(cap, total), total + turn[name]
                    turn[name] = min(cap, total) - before
        return values

    def _pays_in_full(self, turns: Turns) -> bool:
        return bool(self.in_full) and sum(turn.get(OUTCOME, 0.0) for turn in turns) >= SOLVED_AT

    def _filled(self, turns: Turns, states: Sequence[GateState]) -> list[dict[str, float]]:
        """Return the channel values, where the last turn completes the sums of `in_full` to 1 if their gates are open.

        Args:
            turns: The values behind gates and caps.
            states: The states of the gates in the last turn.
        """
        values = [dict(turn) for turn in turns]
        shut = {name for gate, state in zip(self.gates, states, strict=False) if not state.open for name in gate.opens}
        for name in self.in_full - shut:
            rest = 1.0 - sum(turn.get(name, 0.0) for turn in values)
            values[-1][name] = values[-1].get(name, 0.0) + rest
        return values

    def total(self, turns: Turns) -> float:
        """Return the episode's reward."""
        if not self._gates_act_on_sums:
            return sum(self.turn_rewards(turns))
        earned = dict.fromkeys(self._paying_channels, 0.0)
        for turn in turns:
            for name, value in turn.items():
                if value and name in earned:
                    earned[name] += value
        shut: set[str] = set()
        for gate in self.gates:
            if not gate.is_open((earned[gate.on],), 0):
                earned.update(dict.fromkeys(gate.opens, 0.0))
                shut.update(gate.opens)
        for name, cap in self.capped.items():
            if name in earned:
                earned[name] = min(cap, earned[name])
        if self._pays_in_full(turns):
            earned.update(dict.fromkeys(self.in_full - shut, 1.0))
        count = max(1, len(turns))
        return sum([earned[name] * (w / count if name in self.averaged else w) for name, w in self._weights])

    @cached_property
    def _gates_act_on_sums(self) -> bool:
        return all(gate.scope == "trajectory" for gate in self.gates)

    @cached_property
    def _paying_channels(self) -> tuple[str, ...]:
        """Channels that affect the pay."""
        return tuple(dict.fromkeys([*self.weights, *(gate.on for gate in self.gates)]))

    def pay(self, turns: Turns, paid: float | None = None) -> float:
        """Return what the last of `turns` adds to the total, which is the reward of `step`. Payments add up to `total`.

        Args:
            turns: All turns so far.
            paid: Total pay of the earlier turns, if known.
        """
        if self.is_simple:
            last, pay = turns[-1], 0.0
            for name, weight in self._weights:
                if value := last.get(name):
                    pay += weight * value
            return pay
        return self.total(turns) - (self.total(turns[:-1]) if paid is None else paid)


def lint(scheme: Scheme, channels: Mapping[str, Channel], max_turns: int) -> list[str]:
    """Return the problems of a scheme, one sentence each; an empty list means that it is sound.

    Checks that all names exist; that no failed episode can earn as much as a solved one; that cheap channels pay only
    behind a gate on real work; that ending sooner does not raise what a failed episode is paid; and that no weight is
    more than ten times the outcome's.
    """
    used = set(scheme.weights) | scheme.averaged | set(scheme.capped) | scheme.in_full | {g.on for g in scheme.gates}
    used |= {name for gate in scheme.gates for name in gate.opens}
    if unknown := used - set(channels):
        return [f"unknown channels {sorted(unknown)}; this environment has {sorted(channels)}"]
    if OUTCOME not in scheme.weights:
        return [f"the scheme gives {OUTCOME!r} no weight"]
    return [
        *_wrong_composition(scheme),
        *_failure_rivals_success(scheme, channels, max_turns),
        *_cheap_pay(scheme, channels, max_turns),
        *_pay_for_ending_sooner(scheme, channels),
        *_excessive_weights(scheme),
    ]


def check_scheme(scheme: Scheme, channels: Mapping[str, Channel], max_turns: int) -> None:
    """Raise `UsageError` for an unsound scheme, unless it sets `allow_unsound`."""
    if not scheme.allow_unsound and (problems := lint(scheme, channels, max_turns)):
        raise UsageError("unsound reward scheme: " + "; ".join(problems) + " (or set allow_unsound=True)")


def _wrong_composition(scheme: Scheme) -> list[str]:
    both = [f"{name!r} is both averaged and capped; choose one" for name in scheme.capped if name in scheme.averaged]
    both += [f"{name!r} is both averaged and in_full; choose one" for name in scheme.in_full & scheme.averaged]
    bad = [f"the cap of {name!r} is {cap!r}; it must be above 0" for name, cap in scheme.capped.items() if not cap > 0]
    return both + bad


def _failure_rivals_success(scheme: Scheme, channels: Mapping[str, Channel], max_turns: int) -> list[str]:
    worst_right = sum(_bounds(scheme, channels, name, max_turns, solved=True)[0] for name in scheme.weights)
    best_wrong = sum(_bounds(scheme, channels, name, max_turns, solved=False)[1] for name in scheme.weights)
    if best_wrong < worst_right:
        return []
    return [
        f"a failed episode can earn {best_wrong:g} and a solved one as little as {worst_right:g}; lower the "
        f"weights of the other channels, cap their sums, or put them behind Gate(on={OUTCOME!r}, ...)"
    ]


def _cheap_pay(scheme: Scheme, channels: Mapping[str, Channel], max_turns: int) -> list[str]:
    """Return the cheap channels that pay for any legal action, because no gate on real work holds them back."""
    return [
        f"{name!r} is cheap, as any legal action earns it, yet it pays without real work; put it behind a gate that "
        f"is shut at the start, on a channel that is not cheap, such as Gate(on={OUTCOME!r}, ...)"
        for name, weight in scheme.weights.items()
        if channels[name].can_gain(weight)
        and not _needs_work(scheme, channels, max_turns, name, before=len(scheme.gates))
    ]


def _needs_work(scheme: Scheme, channels: Mapping[str, Channel], max_turns: int, name: str, *, before: int) -> bool:
    """Whether only real work earns `name` after the first `before` gates."""
    if not channels[name].cheap:
        return True
    return any(
        name in gate.opens
        and gate.is_shut_below(_at_rest(channels[gate.on], gate, max_turns))
        and _needs_work(scheme, channels, max_turns, gate.on, before=place)
        for place, gate in enumerate(scheme.gates[:before])
    )


def _at_rest(channel: Channel, gate: Gate, max_turns: int) -> float:
    """Return the greatest value that a gate can read from a channel that was never earned."""
    rest = max(channel.low, 0.0)
    return rest * max_turns if channel.per_turn and gate.scope == "trajectory" else rest


def _pay_for_ending_sooner(scheme: Scheme, channels: Mapping[str, Channel]) -> list[str]:
    return [
        f"{name!r} pays its mean over the turns, so a failed episode earns more by ending sooner; cap its sum "
        f"(capped={{{name!r}: 1.0}}), or put it behind Gate(on={OUTCOME!r}, at_least={SOLVED_AT:g}, ...)"
        for name, weight in scheme.weights.items()
        if name in scheme.averaged and channels[name].can_gain(weight) and not _shut_when_failed(scheme, name)
    ]


def _excessive_weights(scheme: Scheme) -> list[str]:
    limit = 10 * abs(scheme.weights[OUTCOME])
    return [
        f"the weight of {name!r} ({weight:g}) is more than ten times that of {OUTCOME!r}"
        for name, weight in scheme.weights.items()
        if abs(weight) > limit
    ]


def _bounds(
    scheme: Scheme, channels: Mapping[str, Channel], name: str, max_turns: int, *, solved: bool
) -> tuple[float, float]:
    """Return the least and greatest pay of one channel over a solved or failed episode."""
    channel, weight = channels[name], scheme.weights[name]
    low, high = channel.low, channel.high
    if name == OUTCOME:
        low, high = (SOLVED_AT, max(high, SOLVED_AT)) if solved else (low, min(high, _just_below_solved(channel)))
    elif not solved and _shut_when_failed(scheme, name):
        return 0.0, 0.0
    elif solved and name in scheme.in_full:
        is_gated = any(name in gate.opens for gate in scheme.gates)
        return (min(weight, 0.0), max(weight, 0.0)) if is_gated else (weight, weight)
    if any(name in gate.opens for gate in scheme.gates):
        low, high = min(low, 0.0), max(high, 0.0)
    cap = scheme.capped.get(name, float("inf"))
    times = _times(channel.per_turn, name in scheme.averaged, max_turns)
    ends = [weight * min(cap, value * count) for value in (low, high) for count in times]
    return min(ends), max(ends)


def _times(per_turn: bool, averaged: bool, max_turns: int) -> tuple[float, ...]:
    """Return the least and greatest number of times that a channel's value can be paid in an episode."""
    if per_turn:
        return (1.0,) if averaged else (1.0, float(max_turns))
    return (1.0 / max_turns, 1.0) if averaged else (1.0,)


def _just_below_solved(channel: Channel) -> float:
    """Return the best failing outcome: 0, as outcomes from 0 to 1 are taken as binary, or `low` if that is greater."""
    return max(channel.low, 0.0)


def _shut_when_failed(scheme: Scheme, name: str) -> bool:
    return any(
        name in gate.opens and gate.on == OUTCOME and gate.scope == "trajectory" and gate.is_shut_below(0.0)
        for gate in scheme.gates
    )
