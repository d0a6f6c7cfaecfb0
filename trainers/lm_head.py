"""TRL's fused language-model head, made to score only what carries loss.

On a CPU it scores every position and then discards those without a label, so that the head takes longer than all layers
of a small model. For GRPO, observations have labels too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import trl.trainer.utils as trl_utils

_NO_LABEL = -100
_ASKED = "_use_triton"
"""The function of TRL that says whether to leave out positions without a label; what computes them has its own."""


def score_labels_only() -> None:
    """Let TRL's head leave out positions without a label on every device, as it does on GPUs."""
    setattr(trl_utils, _ASKED, lambda device: True)


@contextmanager
def without_labels(model: Any, mask: torch.Tensor) -> Iterator[None]:
    """Remove labels where a mask is 0, so that those positions score 0.

    Args:
        model: The model that TRL calls.
        mask: `(rows, last positions)`: 1 where a label stays.
    """

    def remove(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        labels = kwargs.get("labels")
        if labels is None or not kwargs.get("fused_lm_head"):
            return args, kwargs
        labels = labels.clone()
        labels[:, -mask.shape[1] :].masked_fill_(mask == 0, _NO_LABEL)
        return args, {**kwargs, "labels": labels}

    hook = model.register_forward_pre_hook(remove, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
