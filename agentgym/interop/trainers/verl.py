"""verl: an agent loop that plays episodes, and our tools as verl's. `docs/interop/verl.md` compares the two."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any
from uuid import uuid4

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import finished
from agentgym.core.messages import Message, pictures_in, text_of
from agentgym.core.registry import make
from agentgym.interop.episodes import ReplayedEpisode, as_text
from agentgym.interop.openings import episode_named, openings
from agentgym.interop.packages import require_package

require_package("verl")

from verl.experimental.agent_loop.agent_loop import (  # type: ignore[import-not-found]  # noqa: E402
    AgentLoopBase,
    AgentLoopOutput,
    register,
)
from verl.tools.base_tool import BaseTool  # type: ignore[import-not-found]  # noqa: E402
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse  # type: ignore[import-not-found]  # noqa: E402
from verl.utils.profiler import simple_timer  # type: ignore[import-not-found]  # noqa: E402

LOOP = "agentgym"
"""The name of the loop, for `agent_name` in rows."""
DIALECT = "hermes"
"""The default dialect of calls."""


@register(LOOP)
class EnvAgentLoop(AgentLoopBase):
    """Plays an episode: each message of the model is a turn, as text in a dialect, until the episode ends.

    `reward_score` is the sum of the turns' rewards, which `extra_fields["turn_scores"]` lists. A failed environment is
    replaced and the episode replayed (`ReplayedEpisode`). If that fails too, the `InfrastructureError` is raised and
    ends verl's step, since verl has no reward that excludes an episode.

    Args:
        env: The environment, as for `agentgym.make`.
        arguments: The environment's arguments.
        attempts: Attempts at each turn.
        role: The role of observations; `"tool"` for chat templates that support it.
    """

    def __init__(
        self,
        *args: Any,
        env: str,
        arguments: Mapping[str, Any] | None = None,
        attempts: int = 3,
        role: str = "user",
        tools: Any = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._make = partial(make, env, **{"dialect": DIALECT, **(arguments or {})})
        self._attempts, self._role = attempts, role
        self.response_length: int = self.rollout_config.response_length

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **row: Any) -> AgentLoopOutput:
        """Play the episode that the row's `extra_info` names by `task_id` and `seed`."""
        task_id, seed = _episode_of(row)
        episode = ReplayedEpisode(self._make, attempts=self._attempts)
        try:
            opening = await episode.abegin(seed=seed, options={"task": task_id})
            tokens = _Tokens(self, [_plain(message) for message in opening])
            await tokens.begin()
            await self._play(episode, tokens, sampling_params, int(priority))
            reward = await episode.aend(Reason.TOKEN_BUDGET)
        finally:
            await episode.env.aclose()
        extra_fields = {"turn_scores": episode.turn_rewards, "tool_rewards": [], "ending": episode.ending}
        return tokens.output(self.response_length, reward, extra_fields)

    async def _play(
        self, episode: ReplayedEpisode, tokens: _Tokens, sampling_params: dict[str, Any], priority: int
    ) -> None:
        request = uuid4().hex
        while not episode.is_over and len(tokens.mask) < self.response_length:
            text, size = await tokens.generate(request, sampling_params, priority)
            if len(tokens.mask) >= self.response_length:
                return  # verl does not say whether the turn was cut off at the response length, so it is not played
            reason = "length" if size >= (sampling_params.get("max_tokens") or math.inf) else None
            observation = await episode.astep(finished(text, reason, size))
            if not episode.is_over:
                await tokens.read(
                    [{"role": self._role, "content": _plain(message)["content"]} for message in observation]
                )


class _Tokens:
    """The tokens of a conversation: sampled ones, and those of observations."""

    def __init__(self, loop: Any, messages: list[dict[str, Any]]):
        self._loop, self._messages = loop, messages
        self._ids: list[int] = []
        self.mask: list[int] = []
        self._logprobs: list[float] | None = None
        self._turns = 0
        self._metrics: dict[str, Any] = {}

    async def begin(self) -> None:
        self._ids = await self._loop.ct_build_initial_tokens(self._messages)

    async def generate(self, request: str, sampling_params: dict[str, Any], priority: int) -> tuple[str, int]:
        """Sample a message of the model; return its text and its number of tokens."""
        with simple_timer("generate_sequences", self._metrics):
            sample = await self._loop.server_manager.generate(
                request_id=request, prompt_ids=self._ids, sampling_params=sampling_params, priority=priority
            )
        self._turns += 1
        previous_logprobs = self._logprobs if self._logprobs or not sample.log_probs else []
        merged, self.mask, logprobs = await self._loop.ct_merge_assistant_token(
            self._ids, sample.token_ids, self.mask, previous_logprobs, assistant_logprobs=sample.log_probs or None
        )
        self._ids, self._logprobs = merged.token_ids, logprobs
        text = self._loop.tokenizer.decode(sample.token_ids, skip_special_tokens=True)
        self._messages = [*self._messages, {"role": "assistant", "content": text}]
        return text, len(sample.token_ids)

    async def read(self, messages: list[dict[str, Any]]) -> None:
        """Append messages that the model reads; they are masked out of the loss."""
        after = [*self._messages, *messages]
        merged, mask, logprobs = await self._loop.ct_merge_context_msg(
            self._messages, after, self._ids, self.mask, self._logprobs
        )
        self._messages, self._ids, self.mask, self._logprobs = after, merged.token_ids, mask, logprobs

    def output(self, length: int, reward: float, extra_fields: dict[str, Any]) -> AgentLoopOutput:
        """Return the output that verl trains on."""
        prompt_length = len(self._ids) - len(self.mask)
        return AgentLoopOutput(
            prompt_ids=self._ids[:prompt_length],
            response_ids=self._ids[prompt_length:][:length],
            response_mask=self.mask[:length],
            response_logprobs=self._logprobs[:length] if self._logprobs else None,
            reward_score=reward,
            num_turns=2 * self._turns,
            metrics=self._metrics,
            extra_fields=extra_fields,
        )


class EnvTool(BaseTool):
    """One of an environment's tools for verl's own `tool_agent` loop; the tools of a conversation share one episode.

    The loop does not notify tools of the end of a conversation, so rewards cover only the calls, not the final grading,
    and the model reads errors of the infrastructure. Prefer `EnvAgentLoop`.

    Args:
        config: `env`, and optionally `arguments`, `tool` (its name, if there is no schema) and `attempts`.
        tool_schema: The tool's schema; by default, the environment's own.
    """

    _episodes: weakref.WeakKeyDictionary[Any, ReplayedEpisode] = weakref.WeakKeyDictionary()
    """The episode of each conversation."""

    def __init__(self, config: dict[str, Any], tool_schema: OpenAIFunctionToolSchema | None = None):
        self._make = partial(make, config["env"], **{"dialect": "native", **config.get("arguments", {})})
        self._attempts = config.get("attempts", 3)
        super().__init__(config, tool_schema or _schema(self._make, config))
        self._rows: dict[str, Mapping[str, Any]] = {}

    async def create(self, instance_id: str | None = None, **kwargs: Any) -> tuple[str, ToolResponse]:
        """Remember the row of a call: `create_kwargs` has `task_id` and `seed`."""
        instance = instance_id or uuid4().hex
        self._rows[instance] = kwargs.get("create_kwargs") or kwargs
        return instance, ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Play a turn in the conversation's episode, which its first call begins."""
        conversation = kwargs["agent_data"]
        episode = self._episodes.get(conversation) or await self._begin(instance_id, conversation)
        earned = len(episode.turn_rewards)
        read = await episode.acall(self.name, parameters)
        paid = sum(episode.turn_rewards[earned:])
        if earned < len(episode.turn_rewards):
            conversation.turn_scores.append(paid)
        conversation.extra_fields["ending"] = episode.ending
        return ToolResponse(text=as_text(read)), paid, {}

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        """Forget the row of a call. The episode continues until its conversation is garbage-collected."""
        self._rows.pop(instance_id, None)

    async def _begin(self, instance_id: str, conversation: Any) -> ReplayedEpisode:
        task_id, seed = _episode_of({"extra_info": self._rows.get(instance_id)})
        episode = ReplayedEpisode(self._make, attempts=self._attempts)
        weakref.finalize(conversation, episode.close)
        await episode.abegin(seed=seed, options={"task": task_id})
        self._episodes[conversation] = episode
        return episode


def rows(env: str, *, loop: str = LOOP, dialect: str = DIALECT, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a data set for verl (one dict each, as Parquet or JSON lines).

    Args:
        env: The environment, as for `agentgym.make`.
        loop: The agent loop that plays them.
        dialect: The dialect of the loop.
        options: Options of `openings`: the tasks, and the environment's other arguments, the same as for the loop.
    """
    return [
        {
            "prompt": opening.prompt,
            "data_source": f"{env}/{opening.task.split}",
            "agent_name": loop,
            # The environment grades, so verl's own rules are not used.
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": opening.index, **opening.named},
        }
        for opening in openings(env, dialect=dialect, **options)
    ]


def _episode_of(row: Mapping[str, Any]) -> tuple[str, int]:
    """Return the task and the seed that a row names."""
    return episode_named(row.get("extra_info") or {}, f"{__name__}.rows", "the row's extra_info")


def _plain(message: Message) -> dict[str, Any]:
    if pictures_in(message):
        raise UsageError("agentgym's loop for verl supports only text, but the environment shows pictures")
    return {"role": message.get("role"), "content": text_of(message)}


def _schema(make_env: Any, config: Mapping[str, Any]) -> OpenAIFunctionToolSchema:
    """Return the schema of one of an environment's tools, reduced to what verl supports."""
    with closing(make_env()) as env:
        schema = env.tools.get(config["tool"]).schema
    for part in schema["function"]["parameters"]["properties"].values():
        if "anyOf" in part:
            part["type"] = [option["type"] for option in part["anyOf"]]
    return OpenAIFunctionToolSchema.model_validate(schema)
