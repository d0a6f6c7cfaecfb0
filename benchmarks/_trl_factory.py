"""A tiny model that calls tools in Qwen 2.5's format, warm-started on bad play and trained only by TRL's trainer."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import trl
from datasets import Dataset
from tokenizers import AddedToken
from transformers.utils.chat_template_utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer  # pyright: ignore[reportPrivateImportUsage]
from trl.chat_template_utils import get_training_chat_template

from agentgym.core.messages import Message, assistant, calls_of, text_of
from agentgym.core.registry import make
from agentgym.envs.errand import HOUSES, NAMES
from agentgym.eval.statistics import wilson
from agentgym.interop.trainers.trl import environment_class, episode_of, rows, unless_failed
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from tests.noisy import errand

ENV = "errand"
ARGUMENTS: dict[str, Any] = {"difficulty": 1}
NOISE = 0.4
"""Share of wrong calls in the play of the warm start."""
CALLS = ('\n{"name": "fetch", "arguments": {"name": "', '\n{"name": "deliver", "arguments": {"house": "', '"}}\n')
ANSWER = ("\n<tool_response>\n", "\n</tool_response>")
"""Parts of calls and results in the template; each becomes one token."""
QUIET = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "use_cpu": True, "bf16": False}
TASKS = 1000
"""Number of tasks of the warm start and of the training."""


@dataclass(frozen=True)
class Schedule:
    """Settings of TRL's `GRPOConfig`.

    Args:
        steps: Optimizer steps.
        groups: Tasks per step.
        size: Episodes per task.
        learning_rate: Learning rate after the warm-up.
        warmup: Steps of the warm-up from 0.
    """

    steps: int = 25
    groups: int = 8
    size: int = 8
    learning_rate: float = 1e-3
    warmup: int = 4


class Done(NamedTuple):
    """How far an episode got with its errand."""

    fetched: bool
    """Whether the right parcel was fetched, the first half of an errand."""
    solved: bool
    """Whether it was delivered to the right house too."""


@dataclass
class Training:
    """The measurements of a training.

    Args:
        log: TRL's log of each step.
        before: One attempt at each held-out task before the training.
        after: The same after the training.
    """

    log: list[dict[str, float]] = field(default_factory=list)
    before: list[Done] = field(default_factory=list)
    after: list[Done] = field(default_factory=list)


def plays(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield conversations of a player that often makes wrong calls, in TRL's format."""
    dice, tools = random.Random(seed), shown_tools()
    with closing(make(ENV, dialect="native", **ARGUMENTS)) as env:
        for number in range(count):
            messages, _ = env.reset(seed=number, options={"index": number})
            conversation: list[Any] = list(messages)
            done = False
            while not done:
                texts = [text_of(message) for message in conversation if message["role"] != "assistant"]
                action = assistant("", [errand(texts, (), dice, NOISE)])
                result = env.step(action)
                conversation += [action, *result.observation]
                done = result.terminated or result.truncated
            conversation.append(assistant("Done."))
            yield {"messages": [_plain(message) for message in conversation], "tools": tools}


def shown_tools() -> list[Any]:
    """Return the tools' schemas exactly as TRL renders them, since the model learns this prompt."""
    kind = environment_class(ENV, **ARGUMENTS)
    methods = inspect.getmembers(kind, inspect.isfunction)
    return [
        get_json_schema(method) for name, method in methods if name not in ("reset", "get_reward") and name[0] != "_"
    ]


def _plain(message: Message) -> dict[str, Any]:
    plain = {"role": message.get("role"), "content": message.get("content")}
    functions = [{"name": call.name, "arguments": call.arguments} for call in calls_of(message)]
    calls = [{"type": "function", "function": function} for function in functions]
    return {**plain, "tool_calls": calls} if calls else plain


def tokenizer_for(conversations: Sequence[dict[str, Any]]) -> Any:
    """Return a tokenizer with Qwen 2.5's template. The common part of all prompts is one token, and so is each name."""
    template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text(encoding="utf-8")
    texts = [str(message["content"]) for row in conversations for message in row["messages"]]
    tokenizer: Any = tiny_tokenizer(texts, 512, constants=["<tool_call>", "</tool_call>"])
    tokenizer.chat_template = template
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    first = conversations[0]
    opening = [message for message in first["messages"] if message["role"] in ("system", "user")]
    prompt = str(tokenizer.apply_chat_template(opening, tools=first["tools"], tokenize=False))
    constant = prompt.removeprefix("<|im_start|>system\n").partition("<|im_end|>")[0]
    words = ("system", "user", "assistant", *NAMES, *HOUSES)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (constant, *CALLS, *ANSWER, *words)])
    return tokenizer


def learnt(conversation: dict[str, Any], tokenizer: Any) -> dict[str, list[int]]:
    """Return the tokens of a conversation, and labels for those that a model learns to write.

    TRL cannot do this itself: a data set adds the arguments of all tools to each call, as nulls.
    """
    template = get_training_chat_template(tokenizer)
    rendered = tokenizer.apply_chat_template(
        conversation["messages"],
        tools=conversation["tools"],
        chat_template=template,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    ids = rendered["input_ids"]
    labels = [token if own else -100 for token, own in zip(ids, rendered["assistant_masks"], strict=True)]
    return {"input_ids": ids, "labels": labels}


def begun_model(folder: Path, *, seed: int = 0, count: int = TASKS, steps: int = 600) -> tuple[Any, Any]:
    """Train a model to play like `plays` with TRL's supervised trainer; return it with its tokenizer."""
    conversations = list(plays(count, seed))
    tokenizer = tokenizer_for(conversations)
    model = tiny_model(tokenizer, TinyShape(hidden=64, layers=2, feed_forward=192), seed)
    config = SFTConfig(
        output_dir=str(folder / "warm-start"),
        max_steps=steps,
        per_device_train_batch_size=16,
        learning_rate=2e-3,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=20,
        logging_steps=50,
        seed=seed,
        **QUIET,
    )
    dataset = Dataset.from_list([learnt(conversation, tokenizer) for conversation in conversations])
    SFTTrainer(model, args=config, train_dataset=dataset, processing_class=tokenizer).train()
    return model, tokenizer


def trained(
    folder: Path, model: Any, tokenizer: Any, schedule: Schedule, *, seed: int = 0, held_out: int = 0
) -> Training:
    """Train with TRL's `GRPOTrainer`, which also evaluates before and after.

    Args:
        folder: For TRL's output.
        model: Changed in place.
        tokenizer: The tokenizer of the model.
        schedule: Length and learning rate.
        seed: TRL's seed.
        held_out: Number of tasks of the split `test` to play before and after, once each.
    """
    config = GRPOConfig(
        output_dir=str(folder / "trained"),
        max_steps=schedule.steps,
        per_device_train_batch_size=schedule.groups * schedule.size,
        num_generations=schedule.size,
        max_completion_length=128,
        max_tool_calling_iterations=3,
        learning_rate=schedule.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=schedule.warmup,
        beta=0.0,
        logging_steps=1,
        per_device_eval_batch_size=100,
        num_generations_eval=1,
        reward_weights=[0.0],
        seed=seed,
        **QUIET,
    )
    played: list[Done] = []

    @unless_failed
    def solved(environments: list[Any], **_: Any) -> list[float | None]:
        episodes = [episode_of(environment) for environment in environments]
        done = [Done(episode.channels.get("fetched", 0.0) > 0, episode.ending == "solved") for episode in episodes]
        played.extend(done)
        return [float(errand_done.solved) for errand_done in done]

    trainer = GRPOTrainer(
        model,
        reward_funcs=[solved],
        args=config,
        train_dataset=Dataset.from_list(rows(ENV, count=TASKS, **ARGUMENTS)),
        eval_dataset=Dataset.from_list(rows(ENV, split="test", count=max(1, held_out), **ARGUMENTS)),
        processing_class=tokenizer,
        environment_factory=environment_class(ENV, **ARGUMENTS),
    )

    def evaluated() -> list[Done]:
        if not held_out:
            return []
        played.clear()
        trainer.evaluate()
        return list(played)

    training = Training(before=evaluated())
    trainer.train()
    training.log = [entry for entry in trainer.state.log_history if "reward" in entry]
    training.after = evaluated()
    return training


def shares(done: Sequence[Done]) -> dict[str, Any]:
    """Return the shares of episodes by field of `Done`, with Wilson's intervals."""
    rows = {name: _share([getattr(episode, name) for episode in done]) for name in Done._fields}
    return {"episodes": len(done), **rows}


def _share(hits: Sequence[bool]) -> dict[str, Any]:
    low, high = wilson(sum(hits), len(hits))
    return {"share": round(sum(hits) / len(hits), 4), "interval": [round(low, 4), round(high, 4)]}


def threads(number: int) -> None:
    torch.set_num_threads(number)
