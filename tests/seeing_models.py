"""A tiny vision model with random weights: Idefics3, the architecture of SmolVLM, and its processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.chat_templates import idefics_processor

_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def save_seeing_model(folder: Path, *, positions: int = 512) -> None:
    """Save a model that is large enough to have clear preferences, and its processor.

    Args:
        folder: The folder to write to.
        positions: Longest conversation, in tokens.
    """
    import torch
    import transformers

    processor = idefics_processor()
    config = transformers.Idefics3Config(
        text_config=transformers.LlamaConfig(
            vocab_size=len(processor.tokenizer), max_position_embeddings=positions, num_key_value_heads=2, **_SIZES
        ),
        vision_config={"image_size": 56, "patch_size": 14, **_SIZES},
        image_token_id=processor.tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = transformers.Idefics3ForConditionalGeneration(config).float()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(6)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
