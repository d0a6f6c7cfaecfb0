"""Prompts state the number of turns and show a valid call."""

from __future__ import annotations

import inspect

from agentgym.core.registry import load_class
from agentgym.envs.catalog import ENVIRONMENTS, ON_FILES

PATHS = {path for path, _ in (*ENVIRONMENTS.values(), *ON_FILES.values())}
CLASSES = [load_class(path) for path in sorted(PATHS)]
NO_EXAMPLE = {"BFCLEnv"}
"""Each task has tools of its own."""


def test_prompts_state_the_turns_and_show_a_call_that_the_tools_take():
    assert [env for env in CLASSES if not env.states_turns] == []
    for env in (env for env in CLASSES if env.system_prompt and env.__name__ not in NO_EXAMPLE):
        assert env.example_call is not None, env
        inspect.signature(getattr(env, env.example_call.name)).bind(None, **env.example_call.arguments)
