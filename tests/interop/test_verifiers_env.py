"""Environments of verifiers as environments: tools, rows and rubrics are theirs, errors keep their kind."""

from __future__ import annotations

import pytest

from tests.interop.theirs import failed_checks, hold_caveats, imported, named_checks

imported("verifiers.legacy")

from agentgym.base.errors import InfrastructureError  # noqa: E402
from agentgym.core.messages import ToolCall, assistant, text_of  # noqa: E402
from agentgym.interop.envs.verifiers import VerifiersEnv  # noqa: E402
from tests.interop.calculator import load_environment  # noqa: E402
from tests.rows import each_row  # noqa: E402

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


TARGET = "agentgym.interop.envs.verifiers:VerifiersEnv"


def test_its_tools_answer_and_its_rubric_scores():
    env = VerifiersEnv(load_environment)
    opening, info = env.reset(seed=0, options={"split": "train", "index": 2})
    assert text_of(opening[-1]) == "What is 2 + 5?"
    assert [tool["function"]["name"] for tool in info["tools"]] == ["add"]
    result = env.step(assistant("", [ToolCall("add", {"a": 2, "b": 5})]))
    assert text_of(result.observation[-1]) == "7"
    last = env.step("7")
    assert last.info["rewards"]["outcome"] == last.info["rewards"]["exact"] == last.info["rewards"]["short"] == 1.0
    assert (last.terminated, last.info["ending"]) == (True, "solved")


def test_a_rubric_that_breaks_is_an_infrastructure_error_and_no_zero():
    env = VerifiersEnv(load_environment, {"broken": True})
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match="ConnectionError: the judge is away"):
        env.step("7")


def test_the_limit_of_the_environment_truncates():
    env = VerifiersEnv(load_environment, max_turns=9)
    env.reset(seed=0)
    *_, last = (env.step(assistant("", [ToolCall("add", {"a": 1, "b": 1})])) for _ in range(5))
    assert (last.truncated, last.info["ending"]) == (True, "cut_off")


@each_row("held_out", [True, False])
def test_the_page_says_what_is_named(held_out: bool):
    example = f"a ToolEnv {'with' if held_out else 'without'} rows for evaluation"
    hold_caveats("verifiers", example, VerifiersEnv(load_environment, {"held_out": held_out}))


@pytest.mark.slow
def test_failing_checks_are_named_beforehand():
    failed = failed_checks(TARGET, {"env": "tests.interop.calculator:load_environment"})
    assert failed == named_checks(VerifiersEnv(load_environment))
