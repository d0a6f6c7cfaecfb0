"""Our environments in verl: its own agent loops play them, and what is trained on is what was sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.messages import ToolCall, text_of
from agentgym.core.registry import make
from tests.chat_templates import tokenizer_of
from tests.interop.guarantees import Guarantee, Moves, Seen, hold, said_next
from tests.interop.peers import conversation, in_hermes, needs, run_page, saying, together
from tests.interop.probe_env import PROBE
from tests.rows import each_row

pytestmark = [pytest.mark.peers, *needs("verl", "ray", "tensordict", "torch", "transformers")]

Say = Callable[[str], str]
"""Maps the conversation so far to the model's next text."""


class Server:
    """Stands in for verl's client of inference servers: gives tokens of what `say` says, and log-probabilities."""

    def __init__(self, tokenizer: Any, say: Say):
        self.tokenizer, self.say = tokenizer, say
        self.sampled: list[list[int]] = []

    async def generate(self, *, prompt_ids: list[int], **_: Any) -> Any:
        from verl.workers.rollout.replica import TokenOutput  # type: ignore[import-not-found]

        text = self.say(self.tokenizer.decode(prompt_ids))
        ids = [*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id]
        self.sampled.append(ids)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


def looped(kind: Any, say: Say, **settings: Any) -> tuple[Any, Server]:
    """A loop of verl's as its worker makes it, and the server behind it."""
    from omegaconf import OmegaConf  # type: ignore[import-not-found]
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap  # type: ignore[import-not-found]

    tokenizer = tokenizer_of("qwen2_5")
    turns = {"max_user_turns": None, "max_assistant_turns": None, "max_parallel_calls": 1, "format": "hermes"}
    turns |= {"max_tool_response_length": 4096, "tool_response_truncate_side": "middle"}
    rollout = {"prompt_length": 8192, "response_length": settings.pop("response_length", 4096), "multi_turn": turns}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {**rollout, "full_determinism": False}}, "data": {}})
    server = Server(tokenizer, say)
    loop = kind(
        trainer_config=DictConfigWrap(config),
        server_manager=server,
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=None,
        data_config=DictConfigWrap(config.data),
        **settings,
    )
    return loop, server


def played(env: str, say: Say, row: Any, max_tokens: int | None = None, **settings: Any) -> tuple[Any, Server]:
    """Play a row in our loop."""
    from agentgym.interop.trainers.verl import EnvAgentLoop

    async def run() -> tuple[Any, Server]:
        loop, server = looped(EnvAgentLoop, say, env=env, **settings)
        return await loop.run({"max_tokens": max_tokens}, **{**row, "raw_prompt": row["prompt"]}), server

    return asyncio.run(run())


def row_of(env: str = PROBE, **options: Any) -> Any:
    from agentgym.interop.trainers.verl import rows

    return rows(env, count=1, **options)[0]


PAY, FINISH = ToolCall("pay", {"amount": 0.25}), ToolCall("finish_as", {"what": "solved"})


def test_an_episode_is_what_was_sampled_and_read():
    output, server = played(PROBE, saying(PAY, FINISH), row_of())
    assert (output.reward_score, output.extra_fields["turn_scores"]) == (1.25, [0.25, 1.0])
    assert output.extra_fields["ending"] == "solved"
    trained = [token for token, marked in zip(output.response_ids, output.response_mask, strict=True) if marked]
    assert trained == [token for ids in server.sampled for token in ids]
    assert len(output.response_logprobs) == len(output.response_ids)
    assert "paid" in server.tokenizer.decode(output.response_ids)
    assert "Your number is" in server.tokenizer.decode(output.prompt_ids)


def test_a_turn_that_was_cut_off_is_not_run():
    long, short = ToolCall("pay", {"amount": 0.25}), ToolCall("finish_as", {"what": "solved"})
    texts = [f"{'I think. ' * 50}{in_hermes(long)}", in_hermes(short)]
    size = len(tokenizer_of("qwen2_5").encode(texts[0])) + 1
    output, _ = played(PROBE, lambda _: texts.pop(0), row_of(), max_tokens=size)
    assert (output.extra_fields["turn_scores"], output.extra_fields["ending"]) == ([0.0, 1.0], "solved")


class Driver:
    """Plays in our loop, with verl's tokens."""

    adapter = package = "verl"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        from agentgym.interop.trainers.verl import EnvAgentLoop

        async def one(index: int) -> Seen:
            loop, server = looped(
                EnvAgentLoop, lambda text: in_hermes(said_next(conversation(text), episodes, seed)), env=PROBE
            )
            row = {"extra_info": {"task_id": f"probe/train/{index}", "seed": seed + index}}
            try:
                output = await loop.run({}, **row, raw_prompt=[])
            except Exception as error:
                return Seen(error=type(error).__name__)
            extra_fields = output.extra_fields
            whole = conversation(server.tokenizer.decode([*output.prompt_ids, *output.response_ids]))
            read = [message["content"] for message in whole if message["role"] == "user"]
            return Seen(read, [], extra_fields["turn_scores"], output.reward_score, extra_fields["ending"])

        return together(one, len(episodes), attempts)


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)


def test_tools_of_a_conversation_share_an_episode_in_verl_s_own_loop():
    from verl.experimental.agent_loop.agent_loop import ToolListWrap  # type: ignore[import-not-found]
    from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop  # type: ignore[import-not-found]

    from agentgym.interop.trainers.verl import EnvTool

    names = ("pay", "roll", "finish_as")
    tools = [EnvTool({"env": PROBE, "tool": name}) for name in names]
    row = row_of(dialect="native")
    kwargs = {name: {"create_kwargs": row["extra_info"]} for name in names}

    async def run() -> Any:
        loop, _ = looped(ToolAgentLoop, saying(PAY, ToolCall("roll"), FINISH), tools=ToolListWrap(tools))
        return await loop.run({}, raw_prompt=row["prompt"], tools_kwargs=kwargs)

    output = asyncio.run(run())
    assert output.extra_fields["tool_rewards"] == output.extra_fields["turn_scores"] == [0.25, 0.0, 1.0]
    assert output.extra_fields["ending"] == "solved"
    env = make(PROBE, dialect="native")
    opening, _ = env.reset(seed=0, options={"index": 0})
    assert text_of(opening[-1]) in tokenizer_of("qwen2_5").decode(output.prompt_ids)


def test_the_page_s_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run_page("verl.md")
