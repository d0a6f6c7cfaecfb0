"""Scores conversations for checks: shared among processes, and without the logits of all positions at once.

For 8,192 tokens and a vocabulary of 151,936, those logits take 5 GB in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import extract_model_from_parallel

from agentgym.trainers import ranks
from agentgym.trainers.adapters import without_adapters
from agentgym.trainers.trl_seam import fused_head


@torch.no_grad()
def conversation_logprobs(
    model: Any, conversations: Sequence[Sequence[int]], *, temperature: float = 1.0
) -> list[torch.Tensor]:
    """Return the log-probabilities of all tokens but the first of each conversation, in float32 on the CPU.

    Each conversation is scored by one process. All processes must call this with the same conversations; as the passes
    of a sharded model are collective, each makes the same number of them.

    Args:
        model: A model in training, with or without adapters, sharded or not.
        conversations: Token ids.
        temperature: Divides the logits.
    """
    state = PartialState()
    scores: dict[int, torch.Tensor] = {}
    was_training = model.training
    model.eval()
    try:
        with fused_head(without_adapters(extract_model_from_parallel(model)), temperature):
            for number in _share(conversations, state.process_index, state.num_processes):
                ids = torch.tensor([conversations[number]], device=model.device)
                scores[number] = model(input_ids=ids, labels=ids, fused_lm_head=True).log_probs[0].float().cpu()
    finally:
        model.train(was_training)
    scores = dict(ranks.gather(list(scores.items())))
    return [scores[number] for number in range(len(conversations))]


def _share(conversations: Sequence[Sequence[int]], process: int, processes: int) -> list[int]:
    """Return the numbers of a process's conversations, longest first: all processes score similar lengths at a time.

    All shares have the same size; the shortest conversation fills them up.
    """
    longest_first = sorted(range(len(conversations)), key=lambda number: -len(conversations[number]))
    missing = -len(longest_first) % processes
    return [*longest_first, *longest_first[-1:] * missing][process::processes]
