"""Trajectories as token ids for supervised learning. Only the model's own turns carry loss.

The ids of a demonstration equal those of a rollout with the same messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentgym.base.errors import UsageError
from agentgym.core.messages import text_of
from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.trainers.chat import ChatCodec

NO_LOSS = -100
"""The label of tokens without loss."""


@dataclass(frozen=True)
class Example:
    """A conversation to learn from."""

    input_ids: list[int]
    labels: list[int]
    """The token ids with loss, and `NO_LOSS` elsewhere."""


def rendered(trajectory: Trajectory, codec: ChatCodec) -> Tokens:
    """Return the tokens of a trajectory as if the codec's model had sampled it."""
    tokens = Tokens(prompt_ids=codec.open(trajectory.opening, trajectory.tools))
    turns = trajectory.model_turns
    for number, turn in enumerate(turns, start=1):
        assert turn.action is not None
        ids = codec.say(turn.action if isinstance(turn.action, str) else text_of(turn.action))
        if turn.is_cut_off:  # nothing to imitate
            tokens.append_observed(ids)
        else:
            tokens.append_sampled(ids, [0.0] * len(ids), 0)
        if number < len(turns):
            tokens.append_observed(codec.extend(turn.observation, ids[-1]))
    return tokens


def examples(conversations: Iterable[Tokens], context: int) -> list[Example]:
    """Return examples, cut off after `context` tokens.

    Raises:
        UsageError: No conversation has a model turn within the context.
    """
    all_examples = [_example(tokens, context) for tokens in conversations]
    useful = [example for example in all_examples if set(example.labels) != {NO_LOSS}]
    if not useful:
        raise UsageError(
            f"the warm start has nothing to learn from: none of {len(all_examples)} trajectories has a model turn "
            f"within the context of {context} tokens; raise --context"
        )
    return useful


def _example(tokens: Tokens, context: int) -> Example:
    pairs = zip(tokens.completion_ids, tokens.loss_mask, strict=True)
    labels = [NO_LOSS] * len(tokens.prompt_ids) + [token if mask else NO_LOSS for token, mask in pairs]
    return Example((tokens.prompt_ids + tokens.completion_ids)[:context], labels[:context])
