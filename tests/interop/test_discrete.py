"""Environments for trainers of numbers keep Gymnasium's rules, and rewards, endings, seeds and options of `Env`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from agentgym.core.messages import Message, ToolCall, text_of
from agentgym.core.registry import make
from agentgym.interop.trainers.discrete import DiscreteCalls

GUESSES = [ToolCall("guess", {"number": number}) for number in range(1, 11)]
SPACE = spaces.Box(0, 100, (2,), np.float32)


def seen(messages: Sequence[Message]) -> Any:
    texts = [text_of(message) for message in messages]
    return np.array([sum(word in text for text in texts) for word in ("higher", "lower")], np.float32)


def guessing(**arguments: Any) -> DiscreteCalls:
    return DiscreteCalls(lambda: make("guess", dialect="native", **arguments), GUESSES, seen, SPACE)


@pytest.mark.filterwarnings("ignore:.*(spec|render|not within the observation space)")
def test_gymnasium_s_own_checker_passes():
    check_env(guessing(), skip_render_check=True)


def test_an_episode_is_the_one_that_env_plays():
    env, native = guessing(max_turns=3), make("guess", dialect="native", max_turns=3)
    env.reset(seed=4, options={"split": "test", "index": 2})
    native.reset(seed=4, options={"split": "test", "index": 2})
    for action in (0, 9, 4):
        _, *rest = env.step(action)
        function = {"name": "guess", "arguments": {"number": action + 1}}
        result = native.step({"role": "assistant", "content": "", "tool_calls": [{"function": function}]})
        assert rest == [result.reward, result.terminated, result.truncated, result.info]
    assert rest[2]
