"""Trajectories as token ids to learn from. Only the model's own turns carry loss.

A demonstration becomes exactly the ids that the model would see and say in a rollout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentgym.errors import UsageError
from agentgym.messages import text_of
from agentgym.trainers.chat import ChatCodec
from agentgym.trajectory import Tokens, Trajectory

NO_LOSS = -100
"""The label of tokens that are only read."""


@dataclass(frozen=True)
class Example:
    """A conversation to learn from."""

    input_ids: list[int]
    labels: list[int]
    """The id itself where it is to be learned, elsewhere `NO_LOSS`."""


def rendered(trajectory: Trajectory, codec: ChatCodec) -> Tokens:
    """Return the tokens of a trajectory as if the codec's model had said it."""
    tokens = Tokens(prompt_ids=codec.open(trajectory.opening, trajectory.tools))
    turns = trajectory.model_turns
    for number, turn in enumerate(turns, start=1):
        assert turn.action is not None
        said = codec.say(turn.action if isinstance(turn.action, str) else text_of(turn.action))
        tokens.append_sampled(said, [0.0] * len(said), 0)
        if number < len(turns):
            tokens.append_observed(codec.extend(turn.observation, said[-1]))
    return tokens


def examples(conversations: Iterable[Tokens], context: int) -> list[Example]:
    """Return what to learn from, cut off after `context` tokens.

    Raises:
        UsageError: Within the context, the model says nothing in any of the conversations.
    """
    found = [_example(tokens, context) for tokens in conversations]
    useful = [example for example in found if set(example.labels) != {NO_LOSS}]
    if not useful:
        raise UsageError(
            f"the warm start has nothing to learn from: within the context of {context} tokens, the model says nothing "
            f"in any of {len(found)} trajectories; raise --context"
        )
    return useful


def _example(tokens: Tokens, context: int) -> Example:
    said = [i if mask else NO_LOSS for i, mask in zip(tokens.completion_ids, tokens.loss_mask, strict=True)]
    labels = [NO_LOSS] * len(tokens.prompt_ids) + said
    return Example((tokens.prompt_ids + tokens.completion_ids)[:context], labels[:context])
