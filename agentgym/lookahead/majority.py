"""`Majority`: self-consistency. The answer that most lines give is the best (Wang et al., arXiv 2203.11171)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from agentgym.choices import one_of
from agentgym.lookahead.candidate import Candidate
from agentgym.lookahead.value import Asking
from agentgym.messages import text_of


@dataclass(frozen=True)
class Majority:
    """Scores a line by the share of lines that end with the same turn: the submitted answer, if it is over.

    A line that a limit ended, or that the policy gave up, has no answer and scores 0. A line of a tree votes with the
    share of samples that led to it, so that turns which were sampled several times and played once lose no vote.
    """

    by: Literal["call", "result"] = "call"
    """What has to be the same: the call with its arguments, or the result that came before it. Many queries or programs
    that differ give the same result; in environments that show it, that is the better vote."""

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
        if self.by == "result" and (shown := _last_result(candidate)):
            return shown
        calls = candidate.calls()
        said = [[call.name, _plain(dict(call.arguments))] for call in calls] if calls else _plain(candidate.text())
        return json.dumps(said, sort_keys=True, default=str)


def _last_result(candidate: Candidate) -> str:
    """Return what was shown before the last turn of a line that is over, else after it."""
    at = -2 if candidate.is_over else -1
    if len(candidate.turns) < -at:
        return ""
    return "\n".join(text_of(message) for message in candidate.turns[at][1])


def _plain(value: Any) -> Any:
    """Return JSON data with texts that differ only in case and space made equal."""
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
