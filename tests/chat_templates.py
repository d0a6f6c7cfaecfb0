"""Tokenizers with real chat templates, shipped by TRL (Apache-2.0) and read from the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SPECIAL = tuple(
    """
    <|endoftext|> <|im_start|> <|im_end|> <|eot_id|> <|eom_id|> <|python_tag|> <|start_header_id|> <|end_header_id|>
    <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜> <|END_OF_TURN_TOKEN|> <|START_OF_TURN_TOKEN|> <|END_RESPONSE|>
    <|START_RESPONSE|> <eos> <bos> <end_of_turn> <start_of_turn> <|end|> <|return|> <|call|> <|start|> <|message|>
    <|channel|> <|user|> <|assistant|> <|observation|> <end_of_utterance>
    """.split()  # noqa: SIM905
)

_ENDS = {
    "llama": "<|eot_id|>",
    "deepseek": "<｜end▁of▁sentence｜>",
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "gemma": "<eos>",
    "phi": "<|endoftext|>",
    "gptoss": "<|return|>",
    "glm": "<|endoftext|>",
    "idefics": "<end_of_utterance>",
}
"""End-of-text tokens of model families; all others use `<|im_end|>`."""


def template(name: str) -> str:
    """A chat template, by the name of its file."""
    import trl

    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def tokenizer_of(name: str) -> Any:
    """A byte-level tokenizer without merges, with the special tokens of many families and a chat template."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    eos = next((end for family, end in _ENDS.items() if name.startswith(family)), "<|im_end|>")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=eos,
        bos_token="<bos>",
        additional_special_tokens=[token for token in SPECIAL if token not in (eos, "<bos>")],
    )
    tokenizer.chat_template = template(name)
    tokenizer.name_or_path = name
    return tokenizer


def idefics_processor() -> Any:
    """Idefics3's processor for small pictures, with its own chat template, which takes text in content blocks only."""
    import transformers

    tokenizer = tokenizer_of("idefics3")
    tokenizer.add_special_tokens(
        {"additional_special_tokens": ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]}
    )
    tokenizer.pad_token = "<|endoftext|>"
    size = {"longest_edge": 56}
    images = transformers.Idefics3ImageProcessorPil(size=size, max_image_size=size, do_image_splitting=False)
    return transformers.Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=template("idefics3"))
