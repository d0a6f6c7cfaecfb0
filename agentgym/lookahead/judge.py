"""`Judge`: a model as the value function. It is asked for scores from 0 to 10, or which of several lines is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from agentgym.choices import one_of
from agentgym.errors import UsageError
from agentgym.lookahead.answering import answer
from agentgym.lookahead.candidate import Candidate
from agentgym.lookahead.questions import best_in, score_in, to_score, to_vote
from agentgym.lookahead.together import together
from agentgym.lookahead.value import Asking
from agentgym.policy import ChatPolicy, ScriptedPolicy, TokenPolicy
from agentgym.rollout.limits import Limits

How = Literal["score", "vote"]


@dataclass(frozen=True)
class Judge:
    """Asks a policy. An answer that is not of the form asked for gives no score, and is counted as a failure.

    Args:
        policy: The judge: the policy that plays, or another one.
        ask: `"score"` asks for each line by itself, `"vote"` for the best of all.
        samples: How often each question is asked; scores are means, votes are counted.
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
        """Whether lines are compared with each other."""
        return self.ask == "vote"

    @property
    def name(self) -> str:
        """The name, with the judge's."""
        return f"judge,judge={self.policy.name},ask={self.ask},samples={self.samples}"

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return the mean score of each candidate, or its share of votes."""
        if self.ask == "vote":
            return await self._votes(candidates, asking)
        return await together(self._score(candidate, asking) for candidate in candidates)

    async def _score(self, candidate: Candidate, asking: Asking) -> float | None:
        texts = await self._answers(to_score(candidate), f"{asking.key}/{candidate.id}", asking)
        found = [score for text in texts if (score := score_in(text)) is not None]
        asking.cost.value_failures += len(texts) - len(found)
        return sum(found) / len(found) if found else None

    async def _votes(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        if len(candidates) < 2:
            return [1.0] * len(candidates)
        texts = await self._answers(to_vote(candidates), asking.key, asking)
        votes = [best for text in texts if (best := best_in(text, len(candidates))) is not None]
        asking.cost.value_failures += len(texts) - len(votes)
        return [votes.count(number) / len(votes) if votes else None for number in range(len(candidates))]

    async def _answers(self, question: str, key: str, asking: Asking) -> list[str]:
        asking.cost.value_calls += self.samples
        questions = (f"{key}/judge{number}" for number in range(self.samples))
        return await together(answer(self.policy, question, one, self.limits, asking.cost) for one in questions)
