"""The `tiny` model: a small Qwen-family causal LM, created on demand, with its own tokenizer and chat template.

It uses the same code as larger models, so all of training works on a laptop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

ROLES = ("system", "user", "assistant", "tool")
END, PAD = "<|end|>", "<|pad|>"

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|' + message.role + '|>' -}}"
    "{%- if message.role == 'assistant' -%}"
    "{%- generation -%}{{- message.content + '<|end|>' -}}{%- endgeneration -%}"
    "{%- else -%}{{- message.content + '<|end|>' -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
"""One token per role and one at the end of a message. `generation` marks the text that a model learns to write."""


@dataclass(frozen=True)
class TinyShape:
    """Size of the tiny model; the defaults give about a million parameters."""

    vocabulary: int = 1024
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    feed_forward: int = 384
    context: int = 1024

    @property
    def weights(self) -> int:
        """Number of weights, without those of norms."""
        per_layer = 4 * self.hidden**2 + 3 * self.hidden * self.feed_forward
        return self.vocabulary * self.hidden + self.layers * per_layer


def tiny_tokenizer(texts: Iterable[str], vocabulary: int, *, constants: Iterable[str] = ()) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer learned from `texts`; it can encode any text.

    A word includes the space before it, a keyword in capitals also the one after it, and a call its `@`. Every digit is
    separate, so that a number has the same tokens wherever it occurs.

    Args:
        texts: Examples of the model's input and output.
        vocabulary: Number of tokens.
        constants: Long texts that occur in every conversation; each becomes one token.
    """
    tokenizer = Tokenizer(models.BPE())
    words = Regex(r"@[\p{L}_]+| ?\p{Lu}{2,}[ \n]?| ?[\p{L}_]+|\p{N}|\s|[^\p{L}\p{N}\s_]")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, END, *(f"<|{role}|>" for role in ROLES)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in constants])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=special[2:],
        chat_template=CHAT_TEMPLATE,
        model_max_length=1_000_000,
        clean_up_tokenization_spaces=False,
    )


def tiny_model(tokenizer: Any, shape: TinyShape, seed: int) -> Qwen3ForCausalLM:
    """Return a freshly initialised model for `tokenizer`; the global random state does not change."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)
