"""A tiny model that calls tools in Qwen 2.5's form, begun on bad play and trained by TRL's own trainer alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
import trl
from datasets import Dataset
from tokenizers import AddedToken
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer  # pyright: ignore[reportPrivateImportUsage]

from agentgym.interop.trl import environment_class, rows
from agentgym.messages import ToolCall, assistant
from agentgym.registry import make
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from benchmarks._guessing import HIGHEST, TURNS, arguments

ENV = "guess"
CALL = '<tool_call>\n{"name": "guess", "arguments": {"number": ', "}}\n</tool_call>"
ANSWER = ("\n<tool_response>\n", "\n</tool_response>")
"""How the template writes results, which become one token each."""
QUIET = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "use_cpu": True, "bf16": False}


def plays(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield conversations of a player that guesses at random, in the form that TRL trains on."""
    chance = random.Random(seed)
    with closing(make(ENV, dialect="native", **arguments())) as env:
        for number in range(count):
            messages, info = env.reset(seed=number, options={"index": number % HIGHEST})
            conversation: list[Any] = list(messages)
            done = False
            while not done:
                action = assistant("", [ToolCall("guess", {"number": chance.randint(1, HIGHEST)})])
                result = env.step(action)
                conversation += [action, *result.observation]
                done = result.terminated or result.truncated
            conversation.append(assistant("Done."))
            yield {"messages": [_plain(message) for message in conversation], "tools": info["tools"]}


def _plain(message: Any) -> dict[str, Any]:
    calls = [{"type": "function", "function": call["function"]} for call in message.get("tool_calls", ())]
    plain = {"role": message["role"], "content": message["content"]}
    return {**plain, "tool_calls": calls} if calls else plain


def tokenizer_for(conversations: list[dict[str, Any]]) -> Any:
    """Return a tokenizer that writes Qwen 2.5's calls; what is the same in all prompts is one token."""
    template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text(encoding="utf-8")
    texts = [str(message["content"]) for row in conversations for message in row["messages"]]
    tokenizer: Any = tiny_tokenizer(texts, 512, constants=["<tool_call>", "</tool_call>"])
    tokenizer.chat_template = template
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    first = conversations[0]
    opening = [message for message in first["messages"] if message["role"] in ("system", "user")]
    prompt = str(tokenizer.apply_chat_template(opening, tools=first["tools"], tokenize=False))
    constant = prompt.removeprefix("<|im_start|>system\n").partition("<|im_end|>")[0]
    written = [constant, CALL[0].removeprefix("<tool_call>"), CALL[1].removesuffix("</tool_call>"), *ANSWER]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in written])
    return tokenizer


def begun_model(folder: Path, *, seed: int = 0, count: int = 512, steps: int = 300) -> tuple[Any, Any]:
    """Return a model that plays at random, by TRL's supervised trainer, and its tokenizer."""
    conversations = list(plays(count, seed))
    tokenizer = tokenizer_for(conversations)
    model = tiny_model(tokenizer, TinyShape(hidden=64, layers=2, feed_forward=192), seed)
    config = SFTConfig(
        output_dir=str(folder / "begun"),
        assistant_only_loss=True,
        max_steps=steps,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        logging_steps=50,
        seed=seed,
        **QUIET,
    )
    SFTTrainer(model, args=config, train_dataset=Dataset.from_list(conversations), processing_class=tokenizer).train()
    return model, tokenizer


def trained(
    folder: Path, model: Any, tokenizer: Any, *, steps: int, seed: int = 0, groups: int = 8, size: int = 8
) -> list[dict[str, float]]:
    """Train with TRL's `GRPOTrainer`, and return what it logged at each step."""
    config = GRPOConfig(
        output_dir=str(folder / "trained"),
        max_steps=steps,
        per_device_train_batch_size=groups * size,
        num_generations=size,
        max_completion_length=96,
        max_tool_calling_iterations=TURNS,
        learning_rate=4e-4,
        beta=0.0,
        logging_steps=1,
        seed=seed,
        **QUIET,
    )
    trainer = GRPOTrainer(
        model,
        args=config,
        train_dataset=Dataset.from_list(rows(ENV, **arguments())),
        processing_class=tokenizer,
        environment_factory=environment_class(ENV, **arguments()),
    )
    trainer.train()
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def threads(number: int) -> None:
    torch.set_num_threads(number)
