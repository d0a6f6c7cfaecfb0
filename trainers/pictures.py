"""Pictures for vision models: decoding, and counting their tokens."""

from __future__ import annotations

import io
from typing import Any

from agentgym.base.errors import UsageError, require


def opened(png: bytes) -> Any:
    """Return a PNG file as a Pillow image."""
    require("PIL", "web")
    from PIL import Image

    return Image.open(io.BytesIO(png)).convert("RGB")


class PictureTokens:
    """Counts the tokens of pictures as a model's processor does.

    Args:
        processor: A transformers processor with a chat template.
    """

    def __init__(self, processor: Any):
        conversation = [{"role": "user", "content": [{"type": "image"}]}]
        self._processor = processor
        self._text: str = processor.apply_chat_template(conversation, tokenize=False)
        self._alone = len(processor.tokenizer.encode(self._text, add_special_tokens=False))

    def __call__(self, png: bytes) -> int:
        """Return the number of tokens of a picture in addition to its placeholder in the rendered text."""
        read = self._processor(text=[self._text], images=[opened(png)])
        return max(0, len(read["input_ids"][0]) - self._alone)


def processor_of(source: str, config: Any, options: dict[str, Any]) -> Any:
    """Return the processor of a vision model, or `None` for a text-only model.

    Args:
        source: The model's folder or public name.
        config: Its configuration.
        options: For `from_pretrained`.

    Raises:
        UsageError: The processor of a vision model cannot be loaded.
    """
    if getattr(config, "vision_config", None) is None:
        return None
    from transformers import AutoProcessor

    try:
        processor = AutoProcessor.from_pretrained(source, **options)
    except (OSError, ValueError, ImportError) as error:
        reason = next(iter(str(error).strip().splitlines()), repr(error))
        raise UsageError(
            f"the vision model {source!r} needs its processor, which cannot be loaded: {reason}"
        ) from error
    return processor if getattr(processor, "image_processor", None) is not None else None
