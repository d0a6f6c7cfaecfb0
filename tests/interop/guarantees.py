"""Measures the guarantees of adapters, for the table of docs/interop/README.md.

An adapter joins in four steps:

1. In `tests/interop/test_<adapter>.py`, write a `Driver`: `play` plays scripted episodes of `ProbeEnv` through the real
   foreign package, concurrently, and returns what that package received (`Seen`). If it needs a model, use one that
   answers with `said_next(messages, episodes, seed)`.
2. Add `@each_row("guarantee", Guarantee)` and
   `def test_guarantees(guarantee): hold(DRIVER, guarantee)`.
3. Run it once with `AGENTGYM_MEASURE=write`: it writes `tests/interop/measured/<adapter>.json`. From then on, a result
   that differs from that file is a failure.
4. `python -m tests.interop.table` puts all files into the table; `tests/interop/test_guarantees.py` compares the two.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import Message, ToolCall, shown_pictures, text_of
from agentgym.interop.episodes import CalledEpisode
from tests.interop.probe_env import BROKEN_SEED, PNG, TOGETHER, ProbeEnv

MEASURED = Path(__file__).parent / "measured"
YES = "yes"
SPLIT = "train"
_NUMBER = re.compile(r"\b\d{9}\b")

Moves = Sequence[ToolCall]
"""The calls of an episode, one a turn. After the last one the model says `DONE` and calls nothing more."""
DONE = "I am done."


class Guarantee(StrEnum):
    """Something that must hold on the other side of an adapter as it does in `Env`."""

    SEEDS = "seeds"
    """The same task and seed are the same episode, and the one that `Env` plays."""
    TURN_REWARDS = "turn rewards"
    """The reward of each turn arrives, not only the sum."""
    ENDINGS = "endings"
    """Why an episode ended arrives, by the same name."""
    ERRORS = "errors"
    """A failure around the model is an error there, without a reward; the model reads its own mistakes."""
    PARALLEL = "parallel"
    """Episodes run at the same time, and each is the one that it is alone."""
    PICTURES = "pictures"
    """Pictures reach the model as they are."""


@dataclass
class Seen:
    """The data that a program has about an episode played through an adapter."""

    texts: list[str] = field(default_factory=list)
    """All that the model read, in order."""
    pictures: list[bytes] = field(default_factory=list)
    """PNG files that the model was shown."""
    turn_rewards: list[float] | None = None
    """The reward of each turn; `None` if the program does not know them apart."""
    reward: float | None = None
    """The reward of the episode; `None` if it has none."""
    ending: str | None = None
    error: str | None = None
    """The program's own kind of error, if the episode is one."""

    @property
    def numbers(self) -> list[str]:
        """The numbers that `ProbeEnv` showed."""
        return _NUMBER.findall("\n".join(self.texts))


class Driver(Protocol):
    """Plays episodes of `ProbeEnv` through an adapter."""

    adapter: str
    """Name of the adapter: its module in `agentgym.interop`, or its page in `docs/interop`."""
    package: str
    """Name of the distribution that is on the other side."""

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        """Play task `i` of the split `train` with seed `seed + i` and the calls `episodes[i]`.

        All at the same time, and each `attempts` times. Returns for each task what was seen in each attempt.
        """
        ...


def hold(driver: Driver, guarantee: Guarantee) -> None:
    """Measure a guarantee, and compare the result with what has been written down."""
    result = _MEASURES[guarantee](driver)
    file = MEASURED / f"{driver.adapter}.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if os.environ.get("AGENTGYM_MEASURE") == "write":
        results = {"package": f"{driver.package} {version(driver.package)}", **results, guarantee.value: result}
        file.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert results.get(guarantee.value) == result


def said_next(messages: Iterable[Mapping[str, Any]], episodes: Sequence[Moves], seed: int) -> ToolCall | None:
    """Return the next call of an episode's model, given its conversation, whose opening identifies the episode."""
    turns = 0
    for message in messages:
        turns += message.get("role") == "assistant"
    numbers = _NUMBER.findall("\n".join(text_of(m) for m in messages if m.get("role") != "assistant"))
    moves = episodes[next(i for i in range(len(episodes)) if number_of(seed + i) == numbers[0])]
    return moves[turns] if turns < len(moves) else None


@cache
def number_of(seed: int) -> str:
    """Return the number that the opening of `ProbeEnv` shows with a seed."""
    env = ProbeEnv()
    return "" if seed == BROKEN_SEED else _NUMBER.findall(text_of(env.reset(seed=seed)[0][-1]))[0]


def reference(moves: Moves, seed: int, index: int) -> Seen:
    """Return what `Env` itself shows of an episode."""
    return seen_in_env(ProbeEnv(dialect="native"), moves, seed, index)


def seen_in_env(env: Env, moves: Moves, seed: int, index: int) -> Seen:
    """Play an episode in an `Env`, and return what it shows. `Seen.error` stands for an `InfrastructureError`."""
    episode, result = CalledEpisode(env), Seen()
    try:
        read(result, episode.begin(seed=seed, options={"split": SPLIT, "index": index}))
        for move in moves:
            if not episode.is_over:
                read(result, episode.call(move.name, move.arguments))
        result.reward = episode.end(Reason.GAVE_UP)
    except InfrastructureError as error:
        result.error = str(error)
        return result
    result.turn_rewards, result.ending = episode.turn_rewards, episode.ending
    return result


def read(result: Seen, messages: Sequence[Message]) -> None:
    """Add messages of an `Env` to what was seen."""
    result.texts += map(text_of, messages)
    result.pictures += shown_pictures(messages)


def pay(amount: float) -> ToolCall:
    return ToolCall("pay", {"amount": amount})


def finish(what: str = "solved") -> ToolCall:
    return ToolCall("finish_as", {"what": what})


ROLL, LOOK, MEET, COLLAPSE = (ToolCall(name) for name in ("roll", "look", "meet", "collapse"))


def _seeds(driver: Driver) -> str:
    moves = [ROLL, ROLL, finish()]
    expected = [reference(moves, 1_000 + index, index).numbers for index in range(2)]
    results = driver.play([moves, moves], 1_000, attempts=2)
    if any(result.numbers != attempts[0].numbers for attempts in results for result in attempts):
        return "no: attempts at one task and seed differ"
    return YES if [attempts[0].numbers for attempts in results] == expected else "no: other episodes than `Env` plays"


def _turn_rewards(driver: Driver) -> str:
    episodes = [[pay(0.25), ROLL, pay(0.5), finish()], [pay(0.125), pay(0.0625)]]
    expected = [reference(moves, 2_000 + index, index) for index, moves in enumerate(episodes)]
    results = [attempts[0] for attempts in driver.play(episodes, 2_000)]
    if [result.reward for result in results] != [result.reward for result in expected]:
        return "no: another reward than that of `Env`"
    same = [_until_last(r.turn_rewards) for r in results] == [_until_last(r.turn_rewards) for r in expected]
    return YES if same else "their sum"


def _until_last(rewards: Sequence[float] | None) -> list[float]:
    """Return rewards up to the last one that is not 0."""
    remaining = list(rewards or ())
    while remaining and remaining[-1] == 0.0:
        remaining.pop()
    return remaining


def _endings(driver: Driver) -> str:
    endless = [ROLL] * (ProbeEnv.max_turns + 1)
    episodes = [[finish()], [finish("answered")], [finish("declined")], [ROLL], endless]
    expected = [reference(moves, 3_000 + index, index).ending for index, moves in enumerate(episodes)]
    endings = [attempts[0].ending for attempts in driver.play(episodes, 3_000)]
    if endings[3] == Reason.FORMAT_ERRORS:
        expected[3] = Reason.FORMAT_ERRORS.value  # it may go on where a model calls nothing, as `Env` does
    lost = [str(ending) for ending, actual in zip(expected, endings, strict=True) if actual != ending]
    return f"not {', '.join(lost)}" if lost else YES


def _errors(driver: Driver) -> str:
    mistake = ToolCall("pay", {"amount": "a lot"})
    episodes = [[mistake, finish()], [pay(0.5), COLLAPSE, finish()], [finish()]]
    first, held = BROKEN_SEED - 2, YES
    [[wrong], [collapsed], [broken]] = driver.play(episodes, first)
    if wrong.error is not None:
        held = "yes, but other episodes end too"
        [wrong], [collapsed], [broken] = (driver.play([moves], first + i)[0] for i, moves in enumerate(episodes))
    if wrong.error is not None or wrong.reward != 1.0 or not any("amount" in text for text in wrong.texts):
        return "no: the model does not read its mistake"
    if collapsed.error is None or broken.error is None:
        return "no: what broke is not an error"
    if "collapsed" in "".join(collapsed.texts) or not (collapsed.reward is broken.reward is None):
        return "no: a failure is shown to the model, or rewarded"
    return held


def _parallel(driver: Driver) -> str:
    episodes = [[ROLL, MEET, pay(index / 8), ROLL, finish("answered")] for index in range(TOGETHER)]
    alone = [[move for move in moves if move is not MEET] for moves in episodes]
    expected = [reference(moves, 5_000 + index, index) for index, moves in enumerate(alone)]
    results = [attempts[0] for attempts in driver.play(episodes, 5_000)]
    if not all(any("met" in text for text in result.texts) for result in results):
        return "no: one after the other"
    same = [(result.numbers, result.reward) for result in results] == [
        (result.numbers, result.reward) for result in expected
    ]
    return YES if same else "no: episodes disturb each other"


def _pictures(driver: Driver) -> str:
    [[result]] = driver.play([[LOOK, finish()]], 6_000)
    if result.pictures == [PNG]:
        return YES
    return "described in words" if any("picture" in text for text in result.texts) else "no"


_MEASURES: Mapping[Guarantee, Callable[[Driver], str]] = {
    Guarantee.SEEDS: _seeds,
    Guarantee.TURN_REWARDS: _turn_rewards,
    Guarantee.ENDINGS: _endings,
    Guarantee.ERRORS: _errors,
    Guarantee.PARALLEL: _parallel,
    Guarantee.PICTURES: _pictures,
}
