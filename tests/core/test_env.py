"""The environment contract: endings, mistakes, failures, limits and arguments."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from agentgym.base.errors import InfrastructureError, TaskError
from agentgym.core.endings import Ending, Reason
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from tests.counter_env import Counter, call, counter_task, started
from tests.refusals import differing, not_refused, refusal


def answered(env: Env, action: Any) -> str:
    return text_of(env.step(action).observation[0])


# Endings.


def test_an_answer_terminates_the_episode_and_is_graded():
    env = started()
    first = env.step(call("add", number=3)).info["rewards"]
    result = env.step(call("done"))
    assert (result.reward, result.terminated, result.truncated) == (1.0, True, False)
    assert result.info["rewards"] == {OUTCOME: 1.0, "format": 1.0, "final": 1.0}
    assert (result.info["ending"], result.info["is_success"], env.reason) == ("answered", True, Reason.ANSWERED)
    assert first == {OUTCOME: 0.0, "format": 1.0, "final": 0.0}, "rewards of past turns do not change"
    assert {reason.ending for reason in Reason} == set(Ending)


def test_the_turn_limit_truncates_and_grades_unless_the_last_turn_answers():
    env = started(max_turns=2)
    env.step(call("add", number=1))
    result = env.step(call("add", number=1))
    assert (result.terminated, result.truncated, result.info["ending"]) == (False, True, "max_turns")
    assert result.info["rewards"]["final"] == pytest.approx(2 / 3)
    assert started(max_turns=1).step(call("done")).info["ending"] == "answered"


def test_the_time_limit_truncates(monkeypatch: pytest.MonkeyPatch):
    for limit_s, is_over in ((5.0, True), (3600.0, False)):
        clock = count(step=10)
        monkeypatch.setattr(
            "agentgym.core.engine.playing.time", SimpleNamespace(monotonic=lambda clock=clock: next(clock))
        )
        result = started(time_limit_s=limit_s).step(call("add", number=1))
        assert (result.truncated, result.info.get("ending") == "time") == (is_over, is_over)


def test_three_unreadable_actions_in_a_row_truncate():
    env = started()
    endings = [env.step(action).truncated for action in ("?", "?", call("add", number=1), "what?", "<tool_call>{")]
    assert endings == [False] * 5
    result = env.step("")
    assert (result.truncated, result.info["ending"]) == (True, "format_errors")
    mistakes = {"errors/refused_text": 3, "errors/unreadable": 2}
    assert result.info["counts"] == {"calls": 1, "tool_errors": 0, "format_errors": 5} | mistakes


def test_an_interruption_truncates_and_grades_without_an_observation():
    env = started()
    env.step(call("add", number=3))
    result = env.interrupt(Reason.TOKEN_BUDGET)
    assert (result.observation, result.truncated, result.info["ending"]) == ([], True, "token_budget")
    assert result.info["rewards"]["final"] == 1.0


def test_a_step_and_an_interruption_need_a_running_episode():
    env = Counter()
    for _ in range(2):
        with pytest.raises(ResetNeeded):
            env.step("")
        with pytest.raises(ResetNeeded):
            env.interrupt(Reason.TOKEN_BUDGET)
        env.reset(seed=1)
        env.step(call("done"))


# Mistakes of the model.


def test_a_tool_error_is_an_observation_and_the_episode_continues():
    env = started()
    result = env.step(call("add", number=-1))
    assert result.observation == [
        {"role": "tool", "tool_call_id": "call00001", "name": "add", "content": "Error: Only upwards."}
    ]
    assert (result.terminated, env.reason) == (False, None)


# Infrastructure failures.


@pytest.mark.parametrize(("number", "message"), [(13, "broken inside"), (14, "the server is gone")])
def test_a_broken_tool_fails_the_episode_without_an_observation(number: int, message: str):
    env = started()
    with pytest.raises(InfrastructureError, match=message):
        env.step(call("add", number=number))
    assert (env.reason, env.reason.ending) == (Reason.INFRASTRUCTURE, Ending.FAILED)
    with pytest.raises(ResetNeeded):
        env.step(call("add", number=1))
    env.reset(seed=1)
    assert env.reason is None


@pytest.mark.parametrize("hook", ["start", "grade"])
def test_a_broken_hook_fails_the_episode(hook: str):
    def broken(self: Env, *_: Any) -> None:
        raise OSError("disk full")

    env = type("Broken", (Counter,), {hook: broken})()

    def play() -> None:
        env.reset(seed=1)
        env.step(call("done"))

    with pytest.raises(InfrastructureError, match=r"Broken broke on task .*disk full"):
        play()
    assert env.reason is Reason.INFRASTRUCTURE
    with pytest.raises(ResetNeeded):
        env.step("")


# Errors of authors and callers.


class Shaped(Counter):
    """Has schemes of its own."""

    scheme = Scheme({OUTCOME: 1.0, "final": 0.5})
    schemes = {"halved": Scheme({OUTCOME: 1.0, "final": 0.25})}


class Reshaped(Shaped):
    """Has another default, and more schemes."""

    scheme = Scheme({OUTCOME: 2.0})
    schemes = {"bare": Scheme({OUTCOME: 3.0}), "outcome": Scheme({OUTCOME: 5.0})}


def test_invalid_arguments_are_refused():
    rows: list[tuple[dict[str, Any], str]] = [
        ({"max_turns": 0}, "max_turns"),
        ({"time_limit_s": -1}, "time_limit_s"),
        ({"dialect": "hermès"}, "did you mean 'hermes'"),
        ({"scheme": Scheme({OUTCOME: 1.0, "format": 1.0})}, "unsound reward scheme"),
        ({"scheme": "outcom"}, "there is no scheme 'outcom'; did you mean 'outcome'"),
        ({"scheme": 3}, "there is no scheme 3. There are: default, outcome, d_ra"),
        *(({"dialect": dialect}, "is not a dialect") for dialect in (5, None, object(), ["hermes"])),
    ]
    assert not_refused(lambda kwargs: Counter(**kwargs), rows) == []
    assert "unknown split 'tests'" in refusal(lambda: Counter(split="tests"), raises=TaskError)


def test_invalid_reset_options_and_seeds_are_refused():
    rows: list[tuple[dict[str, Any], str]] = [
        ({"tsk": 1}, "['tsk']; known: index, split, task, training_step"),
        ({"training_step": -1}, "training_step is a whole number from 0 upwards, not -1"),
        ({"training_step": True}, "not True"),
        ({"index": "1"}, "not 'str'"),
    ]
    assert not_refused(lambda options: Counter().reset(options=options), rows) == []
    unknown: list[tuple[dict[str, Any], str]] = [
        ({"split": "dev"}, "unknown split 'dev'"),
        ({"task": "counter/test/99"}, "has no task 99"),
        ({"split": "test", "index": 99}, "has no task 99"),
    ]
    assert not_refused(lambda options: Counter().reset(options=options), unknown, TaskError) == []
    seeds: list[tuple[Any, str]] = [(seed, "a seed is a whole number") for seed in (-1, 1.5, "1", True)]
    assert not_refused(lambda seed: Counter().reset(seed=seed), seeds) == []


def test_mistakes_of_an_author_are_reported():
    class Misspelt(Counter):
        """Pays into nothing."""

        def grade(self) -> dict[str, float]:
            self.reward("outcom", 1.0)
            return {}

    class Bare(Env):
        """Nothing at all."""

    torn = {"schemes": {"default": Scheme({OUTCOME: 9.0})}}
    rows = [
        (lambda: started(Misspelt).step(call("done")), "unknown reward channel 'outcom'"),
        (lambda: type("Torn", (Counter,), torn), "Torn.schemes['default'] is not Torn.scheme"),
        (lambda: type("Aimless", (Env,), {"channels": {"format": Channel("readable")}}), "needs an 'outcome' channel"),
        (Bare, "Bare has no tasks of its own; pass tasks="),
        (lambda: next(iter(Bare(tasks=Counter.default_tasks()).solution(counter_task("train", 1)))), "no solution()"),
    ]
    assert not_refused(lambda mistake: mistake(), rows) == []


def test_schemes_are_chosen_by_name_and_inherited():
    assert Shaped().scheme is Shaped(scheme="default").scheme is Shaped.scheme
    assert Shaped(scheme="halved").scheme.weights["final"] == 0.25
    assert Shaped(scheme="outcome").scheme == Scheme()
    assert Shaped(scheme="d_ra").scheme == Shaped.scheme.ungated()
    weights = {name: scheme.weights[OUTCOME] for name, scheme in Reshaped.schemes.items()}
    assert weights == {"default": 2.0, "outcome": 5.0, "d_ra": 2.0, "halved": 1.0, "bare": 3.0}


def test_options_choose_the_task():
    rows: list[tuple[dict[str, Any], str]] = [
        ({"split": "test", "index": 2}, "counter/test/2"),
        ({"split": "train", "index": np.int64(1)}, "counter/train/1"),
        ({"task": "counter/train/7"}, "counter/train/7"),
        ({"task": counter_task("test", 1)}, "counter/test/1"),
    ]
    assert differing(lambda options: Counter().reset(options=options)[1]["task"], rows) == []


# Prompts.


def test_the_opening_is_the_instructions_and_the_prompt():
    observation, info = Counter().reset(options={"split": "test", "index": 2})
    assert [message.get("role") for message in observation] == ["system", "user"]
    assert "add" in text_of(observation[0])
    assert text_of(observation[1]) == "Count to 3."
    assert (info["task"], info["split"], info["difficulty"]) == ("counter/test/2", "test", 1)
    assert [entry["function"]["name"] for entry in info["tools"]] == ["add", "done"]


class Telling(Counter):
    states_turns = True
    example_call = ToolCall("add", {"number": 2})
    system_prompt = "Count."


def test_the_stated_number_of_turns_is_the_limit():
    for turns, words in ((None, "You have 8 turns,"), (3, "You have 3 turns,"), (1, "1 turn,")):
        env = Telling(max_turns=turns)
        assert words in text_of(env.reset(seed=0)[0][0])
        results = (env.step(call("add", number=0)) for _ in range(99))
        assert 1 + next(number for number, result in enumerate(results) if result.truncated) == env.max_turns
    assert "You have" not in text_of(Counter().reset(seed=0)[0][0])
    assert "3 messages in a row without a valid call end the episode." in Telling().stated_limits
    assert "A message without a valid call ends" in type("Strict", (Telling,), {"max_format_errors": 1})().stated_limits


# States.


def test_a_snapshot_restores_an_episode_and_its_training_step():
    env, other = Counter(), Counter()
    env.reset(seed=1, options={"split": "test", "index": 2, "training_step": 3})
    env.step(call("add", number=2))
    saved = env.snapshot()
    env.step(call("add", number=5))
    other.restore(saved)
    assert (other.count, other.task.id, other.training_step) == (2, "counter/test/2", 3)
    assert answered(other, call("add", number=1)) == "count 3"


def test_closing_releases_and_may_be_repeated():
    env = Counter()
    env.close()
    env.close()
    assert env.released == 2
