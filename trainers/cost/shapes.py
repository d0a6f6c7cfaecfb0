"""The shape of a decoder model, and the numbers that follow from it: weights, operations, bytes of the cache."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from agentgym.base import yaml12
from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError

_DATA = Path(__file__).parent / "data" / "shapes.yaml"
SHORT_NAMES = {"smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Models that have another name here."""


@dataclass(frozen=True)
class ModelShape:
    """The shape of a dense decoder of the Llama family (Llama, Qwen2, Qwen3)."""

    kind: str
    """`model_type` in transformers."""
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    feed_forward: int
    tied: bool
    """Whether the head uses the weights of the embedding."""
    positions: int
    rope_theta: float = 10_000.0

    @property
    def queries(self) -> int:
        """Width of all queries of a layer."""
        return self.heads * self.head_size

    @property
    def keys(self) -> int:
        """Width of all keys of a layer, and of all values."""
        return self.key_heads * self.head_size

    @property
    def linear_weights(self) -> int:
        """Weights of the matrices of a layer."""
        attention = 2 * self.hidden * self.queries + 2 * self.hidden * self.keys
        return attention + 3 * self.hidden * self.feed_forward

    @property
    def weights(self) -> int:
        """All weights, those of norms and biases included."""
        norms = 2 * self.hidden + (2 * self.head_size if self.kind == "qwen3" else 0)
        biases = self.queries + 2 * self.keys if self.kind == "qwen2" else 0
        embeddings = (1 if self.tied else 2) * self.vocabulary * self.hidden
        return embeddings + self.layers * (self.linear_weights + norms + biases) + self.hidden

    def lora_weights(self, rank: int) -> int:
        """Return the weights of adapters of this rank on all linear layers but the head."""
        widths = (self.hidden, self.queries), (self.hidden, self.keys), (self.hidden, self.keys)
        widths += (self.queries, self.hidden), *3 * ((self.hidden, self.feed_forward),)
        return rank * self.layers * sum(map(sum, widths))

    def forward_flops(self, attended: float) -> float:
        """Return the operations for a token that attends to this many positions, twice the multiplications."""
        matrices = 2 * (self.layers * self.linear_weights + self.hidden * self.vocabulary)
        return matrices + self._attention_flops(attended)

    def _attention_flops(self, attended: float) -> float:
        return 4 * self.layers * self.queries * attended

    def learning_flops(self, attended: float, lora_rank: int = 0) -> float:
        """Return the operations for learning from a token.

        The backward pass computes the gradients of both factors of each product: of activations and of weights, which
        LoRA does not need for frozen weights, and twice of activations in attention.
        """
        if not lora_rank:
            return 3 * self.forward_flops(attended)
        adapters = 6 * self.lora_weights(lora_rank)
        return 2 * self.forward_flops(attended) + self._attention_flops(attended) + adapters

    def cache_bytes(self, width: int = 2) -> int:
        """Return the bytes of keys and values of a token, with numbers of `width` bytes."""
        return 2 * self.layers * self.keys * width


def published() -> list[str]:
    """Return the names of models with known shapes."""
    return list(_published())


def shape_named(name: str) -> ModelShape:
    """Return the shape of a published model. Raises `UsageError` if it is not known."""
    models = _published()
    by_name = {full.lower(): full for full in models} | {full.rpartition("/")[2].lower(): full for full in models}
    full = by_name.get(SHORT_NAMES.get(name, name).lower())
    if full is None:
        raise UsageError(f"the shape of model {name!r} is not known{nearest(name, models)} Known: {', '.join(models)}")
    return ModelShape(**{field.name: models[full][field.name] for field in fields(ModelShape)})


def published_weights(name: str) -> int:
    """Return the published number of weights of a model in `published()`."""
    return _published()[name]["weights"]


def shape_of(config: Any) -> ModelShape | None:
    """Return the shape in a configuration of transformers; `None` for other kinds of models, such as experts.

    Args:
        config: The configuration; its vocabulary counts padded tokens too.
    """
    text = config.get_text_config()
    if text.model_type not in ("llama", "qwen2", "qwen3"):
        return None
    return ModelShape(
        kind=text.model_type,
        vocabulary=text.vocab_size,
        hidden=text.hidden_size,
        layers=text.num_hidden_layers,
        heads=text.num_attention_heads,
        key_heads=text.num_key_value_heads,
        head_size=getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
        feed_forward=text.intermediate_size,
        tied=bool(text.tie_word_embeddings),
        positions=text.max_position_embeddings,
        rope_theta=text.rope_parameters["rope_theta"],
    )


@cache
def _published() -> dict[str, dict[str, Any]]:
    table = yaml12.read(_DATA, "the shapes of models")
    return {name: dict(zip(table["columns"], row, strict=True)) for name, row in table["models"].items()}
