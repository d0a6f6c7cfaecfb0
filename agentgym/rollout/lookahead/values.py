"""Value functions: they estimate how good lines of play are, so that a search can choose."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, Protocol, get_args

from agentgym.base.choices import one_of
from agentgym.base.errors import UsageError, has_error
from agentgym.core.messages import text_of
from agentgym.core.policy import ChatPolicy, ScriptedPolicy, TokenPolicy
from agentgym.core.rewards import OUTCOME
from agentgym.rollout.limits import Limits
from agentgym.rollout.lookahead.cost import SearchCost
from agentgym.rollout.lookahead.line import Candidate
from agentgym.rollout.lookahead.voice import answer_of, together

How = Literal["score", "vote"]

MOST_CHARS = 24_000
"""Characters of a conversation that a judge sees; the middle of a longer one is left out."""

_SCORE = re.compile(r"score:\s*(10|\d(?:\.\d+)?)(?:\s*/\s*10)?\.?", re.IGNORECASE)
_BEST = re.compile(r"best:\s*(\d+)\.?", re.IGNORECASE)

_TO_SCORE = """An assistant works on a task with tools. Here is the conversation so far:

{conversation}

{state} How likely is it that the assistant solves the task this way? Think, then end with a line of this form, with a \
number from 0 (surely not) to 10 (surely):
Score: NUMBER"""

_TO_VOTE = """Assistants worked on the same task with tools, each in its own way.

{candidates}

Which of them solves the task most likely? Think, then end with a line of this form, with one of the numbers above:
Best: NUMBER"""
_PASSED = re.compile(r"\b(\d+)\s*(?:/|of|out of)\s*(\d+)\b[^.\n]{0,30}\bpass(?:ed|es)?\b", re.IGNORECASE)
_COUNTS = re.compile(r"\b(\d+) (passed|failed|errors?)\b")
"""The counts in a line such as "2 failed, 5 passed in 0.1s"."""


@dataclass(frozen=True)
class Asking:
    """The context of a question to a value function."""

    key: str
    """Identifies the question; seeds derive from it."""
    cost: SearchCost
    """Counts the cost of the answer."""


class Value(Protocol):
    """A value function. By default it does not see the reward."""

    @property
    def name(self) -> str:
        """The name, with every setting that affects the choice."""
        ...

    @property
    def channels(self) -> frozenset[str]:
        """Reward channels that it sees."""
        ...

    @property
    def compares(self) -> bool:
        """Whether a score depends on the other candidates; if not, it is computed once."""
        ...

    @property
    def is_oracle(self) -> bool:
        """Whether it sees information that the policy lacks, so that results are upper bounds."""
        ...

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return a score from 0 to 1 for each candidate, in order; `None` if it cannot be scored."""
        ...


@dataclass(frozen=True)
class Majority:
    """Scores a line by the share of lines that end with the same turn, which is the answer if the line is over.

    This is self-consistency (Wang et al., arXiv 2203.11171). A line that a limit ended, or that the policy gave up, has
    no answer and scores 0. A line of a tree votes with the share of samples that led to it: a turn sampled several
    times but played once keeps all its votes.
    """

    by: Literal["call", "result"] = "call"
    """Compare the call with its arguments, or the result before it. Different queries or programs often give the same
    result, so comparing results is better where the environment shows them."""

    channels = frozenset[str]()
    compares = True
    is_oracle = False

    def __post_init__(self) -> None:
        one_of("by", self.by, get_args(Literal["call", "result"]))

    @property
    def name(self) -> str:
        """The name."""
        return "majority" if self.by == "call" else f"majority,by={self.by}"

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return the share of votes of each candidate's answer."""
        answers = [self._answer(candidate) for candidate in candidates]
        votes: defaultdict[str, float] = defaultdict(float)
        for answer, candidate in zip(answers, candidates, strict=True):
            if answer is not None:
                votes[answer] += candidate.weight
        cast = sum(votes.values())
        return [0.0 if answer is None else votes[answer] / cast for answer in answers]

    def _answer(self, candidate: Candidate) -> str | None:
        if not candidate.turns or (candidate.is_over and not candidate.is_answered):
            return None
        if self.by == "result" and (result := _last_result(candidate)):
            return result
        calls = candidate.calls()
        turn = [[call.name, _plain(dict(call.arguments))] for call in calls] if calls else _plain(candidate.text())
        return json.dumps(turn, sort_keys=True, default=str)


def _last_result(candidate: Candidate) -> str:
    """Return the observation before the last turn of a line that is over, or after it if the line is not over."""
    at = -2 if candidate.is_over else -1
    if len(candidate.turns) < -at:
        return ""
    return "\n".join(text_of(message) for message in candidate.turns[at][1])


def _plain(value: Any) -> Any:
    """Return JSON data whose texts are normalised in case and white space."""
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Signals:
    """Scores a line by the mean of signals that the policy sees too.

    The signals are the share of turns without an error, whether the last turn was one, the share of passed tests in
    the latest test report, if any, and, for a line that is over, whether the task ended it rather than a limit.
    """

    channels: frozenset[str] = frozenset()
    """Reward channels to add to the mean; only ones that the policy could compute itself. A channel graded with the
    gold reveals it, and results chosen by it are no longer the policy's own."""

    compares = False
    is_oracle = False

    def __post_init__(self) -> None:
        named = (self.channels,) if isinstance(self.channels, str) else self.channels
        object.__setattr__(self, "channels", frozenset(map(str, named)))
        if OUTCOME in self.channels:
            raise UsageError(f"{OUTCOME!r} is the result itself; for an upper bound chosen by it, use value=oracle")

    @property
    def name(self) -> str:
        """The name, with the channels."""
        return f"signals,channels=[{', '.join(sorted(self.channels))}]" if self.channels else "signals"

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return the mean of each candidate's signals."""
        return [fmean(_signals(candidate)) for candidate in candidates]


def _signals(candidate: Candidate) -> Iterator[float]:
    results = ["\n".join(text_of(message) for message in observation) for _, observation in candidate.turns]
    clean = [float(not has_error(text)) for text in results]
    yield fmean(clean) if clean else 1.0
    yield clean[-1] if clean else 1.0
    if reports := [share for text in results if (share := _passed(text)) is not None]:
        yield reports[-1]
    if candidate.is_over:
        yield float(candidate.is_answered)
    yield from (min(max(value, 0.0), 1.0) for value in candidate.rewards.values())


def _passed(text: str) -> float | None:
    """Return the share of passed tests in a test report; `None` if the text is not a report."""
    if reports := _PASSED.findall(text):
        passed, of = map(int, reports[-1])
    elif counts := {what: int(number) for number, what in _COUNTS.findall(text)}:
        passed, of = counts.get("passed", 0), sum(counts.values())
    else:
        return None
    return min(1.0, passed / of) if of else None


@dataclass(frozen=True)
class Oracle:
    """Scores a line by its outcome, which the policy does not know. The result is pass@n, an upper bound."""

    name = "oracle"
    channels = frozenset({OUTCOME})
    compares = False
    is_oracle = True

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return each candidate's outcome."""
        return [candidate.rewards[OUTCOME] for candidate in candidates]


@dataclass(frozen=True)
class Judge:
    """Asks a model for scores from 0 to 10, or for the best of several lines.

    Answers are parsed strictly: an answer in another format gives no score and counts as a failure.

    Args:
        policy: The judging policy: the playing one or another.
        ask: `"score"` asks for a score of each line, `"vote"` for the best of all lines.
        samples: Number of answers to each question; scores are averaged, votes are counted.
        limits: Limits of an answer.
    """

    policy: ChatPolicy | TokenPolicy
    ask: How = "score"
    samples: int = 1
    limits: Limits = field(default_factory=Limits)

    channels = frozenset[str]()
    is_oracle = False

    def __post_init__(self) -> None:
        one_of("ask", self.ask, get_args(How))
        if self.samples < 1:
            raise UsageError(f"samples must be at least 1, not {self.samples}")
        if isinstance(self.policy, ScriptedPolicy):
            raise UsageError("a scripted policy cannot judge: name a model with judge=")

    @property
    def compares(self) -> bool:
        """Whether the judge compares lines with each other."""
        return self.ask == "vote"

    @property
    def name(self) -> str:
        """The name, with that of the judge."""
        return f"judge,judge={self.policy.name},ask={self.ask},samples={self.samples}"

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return the mean score of each candidate, or its share of votes."""
        if self.ask == "vote":
            return await self._votes(candidates, asking)
        return await together(self._score(candidate, asking) for candidate in candidates)

    async def _score(self, candidate: Candidate, asking: Asking) -> float | None:
        texts = await self._answers(to_score(candidate), f"{asking.key}/{candidate.id}", asking)
        scores = [score for text in texts if (score := score_in(text)) is not None]
        asking.cost.value_failures += len(texts) - len(scores)
        return sum(scores) / len(scores) if scores else None

    async def _votes(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        if len(candidates) < 2:
            return [1.0] * len(candidates)
        texts = await self._answers(to_vote(candidates), asking.key, asking)
        votes = [best for text in texts if (best := best_in(text, len(candidates))) is not None]
        asking.cost.value_failures += len(texts) - len(votes)
        return [votes.count(number) / len(votes) if votes else None for number in range(len(candidates))]

    async def _answers(self, question: str, key: str, asking: Asking) -> list[str]:
        asking.cost.value_calls += self.samples
        names = (f"{key}/judge{number}" for number in range(self.samples))
        return await together(answer_of(self.policy, question, name, self.limits, asking.cost) for name in names)


def to_score(candidate: Candidate) -> str:
    """Return the question for the score of one line."""
    state = "It has ended." if candidate.is_over else "It goes on."
    return _TO_SCORE.format(conversation=_cut(candidate.conversation), state=state)


def to_vote(candidates: Sequence[Candidate]) -> str:
    """Return the question for the best of several lines."""
    chars_each = MOST_CHARS // max(1, len(candidates))
    texts = [_cut(candidate.conversation, chars_each) for candidate in candidates]
    parts = [f"# Assistant {number}\n{text}" for number, text in enumerate(texts, start=1)]
    return _TO_VOTE.format(candidates="\n\n".join(parts))


def score_in(text: str) -> float | None:
    """Return the score from 0 to 1 on the last line; `None` if that line has another format."""
    match = _SCORE.fullmatch(_last_line(text))
    return float(match[1]) / 10 if match else None


def best_in(text: str, of: int) -> int | None:
    """Return the number of the chosen candidate, from 0, on the last line; `None` if there is no such candidate."""
    match = _BEST.fullmatch(_last_line(text))
    number = int(match[1]) if match else 0
    return number - 1 if 1 <= number <= of else None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip().strip("*").strip() if lines else ""


def _cut(text: str, most: int = MOST_CHARS) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n[…]\n{text[-most // 2 :]}"
