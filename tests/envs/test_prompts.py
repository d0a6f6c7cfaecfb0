"""What a model reads before its first turn says how many turns it has, and shows a call that works."""

from __future__ import annotations

import inspect

import pytest

from agentgym.env import Env
from agentgym.envs.catalog import ENVIRONMENTS, ON_FILES
from agentgym.registry import load_class

PATHS = {path for path, _ in (*ENVIRONMENTS.values(), *ON_FILES.values())}
ITS_OWN = {
    "agentgym.interop.bfcl:BFCLEnv": "the questions of the leaderboard, as it asks them",
    "agentgym.envs.errand:ErrandEnv": "a lesson in stalling; its recorded runs were played without a word about turns",
}
"""Environments that do not state their turns, and what their prompts are instead."""

CLASSES = [load_class(path) for path in sorted(PATHS - ITS_OWN.keys())]


@pytest.mark.parametrize("env", CLASSES)
def test_prompts_state_the_turns(env: type[Env]):
    assert env.states_turns


@pytest.mark.parametrize("env", [env for env in CLASSES if env.system_prompt])
def test_prompts_show_a_call_that_the_tools_take(env: type[Env]):
    example = env.example_call
    assert example is not None
    inspect.signature(getattr(env, example.name)).bind(None, **example.arguments)
