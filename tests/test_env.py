"""The environment contract: endings, mistakes, failures, limits."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import SyncVectorEnv

from agentgym.endings import Ending, Reason
from agentgym.env import Env
from agentgym.errors import InfrastructureError, TaskError, ToolError, UsageError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.registry import make
from agentgym.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.script import steps
from agentgym.task import GeneratedTasks
from agentgym.toolset import tool
from tests.counter_env import Counter, call, counter_task, started


class Parrot(Env):
    """Needs no tools."""

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("counter", counter_task, {"train": None})

    def respond(self, text: str) -> str:
        self.reward(OUTCOME, 1.0)
        self.finish(Reason.SOLVED)
        return f"{text}!"


# Endings.


def test_an_answer_terminates_the_episode_and_is_graded():
    env = started()
    env.step(call("add", number=3))
    result = env.step(call("done"))
    assert (result.reward, result.terminated, result.truncated) == (1.0, True, False)
    assert result.info["rewards"] == {OUTCOME: 1.0, "format": 1.0, "final": 1.0}
    assert (result.info["ending"], result.info["is_success"], env.reason) == ("answered", True, Reason.ANSWERED)


def test_running_out_of_turns_truncates_and_grades():
    env = started(max_turns=2)
    env.step(call("add", number=1))
    result = env.step(call("add", number=1))
    assert (result.terminated, result.truncated, result.info["ending"]) == (False, True, "max_turns")
    assert result.info["rewards"]["final"] == pytest.approx(2 / 3)


def test_an_answer_in_the_last_turn_is_an_answer_and_no_truncation():
    env = started(max_turns=1)
    assert env.step(call("done")).info["ending"] == "answered"


def test_the_time_limit_truncates():
    env = started(time_limit_s=0.0)
    time.sleep(0.002)
    result = env.step(call("add", number=1))
    assert (result.truncated, result.info["ending"]) == (True, "time")


def test_an_episode_within_its_time_goes_on():
    env = started(time_limit_s=3600.0)
    assert not env.step(call("add", number=1)).truncated


def test_three_unreadable_actions_in_a_row_truncate():
    env = started()
    assert not env.step("what?").truncated
    assert not env.step("<tool_call>{").truncated
    result = env.step("")
    assert (result.truncated, result.info["ending"]) == (True, "format_errors")
    mistakes = {"errors/refused_text": 1, "errors/unreadable": 2}
    assert result.info["counts"] == {"calls": 0, "tool_errors": 0, "format_errors": 3} | mistakes


def test_a_readable_action_makes_good_for_unreadable_ones():
    env = started()
    endings = [env.step(action).truncated for action in ("?", "?", call("add", number=1), "?", "?")]
    assert endings == [False] * 5


def test_an_interruption_truncates_grades_and_shows_nothing():
    env = started()
    env.step(call("add", number=3))
    result = env.interrupt(Reason.TOKEN_BUDGET)
    assert (result.observation, result.truncated, result.info["ending"]) == ([], True, "token_budget")
    assert result.info["rewards"]["final"] == 1.0
    with pytest.raises(ResetNeeded):
        env.interrupt(Reason.TOKEN_BUDGET)


def test_every_reason_has_a_kind_of_ending():
    assert {reason.ending for reason in Reason} == set(Ending)


def test_a_step_needs_a_running_episode():
    env = Counter()
    with pytest.raises(ResetNeeded):
        env.step("")
    env.reset(seed=1)
    env.step(call("done"))
    with pytest.raises(ResetNeeded, match="has ended"):
        env.step("")


# What the model does wrong.


def test_a_tool_error_is_an_observation_and_the_episode_goes_on():
    env = started()
    result = env.step(call("add", number=-1))
    assert result.observation == [
        {"role": "tool", "tool_call_id": "call00001", "name": "add", "content": "Error: Only upwards."}
    ]
    assert not result.terminated
    assert env.reason is None


@pytest.mark.parametrize(
    ("action", "word"),
    [
        (call("sub", number=1), "There is no tool 'sub'"),
        (call("add"), "argument 'number' is missing"),
        (call("add", number="many"), "argument 'number'"),
        (call("add", number=1, twice=True), "there is no argument 'twice'"),
        (call("don"), "Did you mean 'done'"),
    ],
)
def test_a_wrong_call_is_explained(action: Any, word: str):
    assert word in text_of(started().step(action).observation[0])


def test_more_calls_than_allowed_are_refused_and_none_runs():
    env = started()
    two = assistant("", [ToolCall("add", {"number": 1}), ToolCall("add", {"number": 1})])
    assert "Call one tool at a time, not 2. None of them ran." in text_of(env.step(two).observation[0])
    assert env.count == 0


def test_several_calls_run_in_order_where_allowed():
    class Doubly(Counter):
        """Two calls a turn."""

        max_calls_per_turn = 2

    env = started(Doubly)
    two = assistant("", [ToolCall("add", {"number": 1}, "a"), ToolCall("add", {"number": 1}, "b")])
    answers = env.step(two).observation
    assert [(m["tool_call_id"], m["content"]) for m in answers] == [("a", "count 1"), ("b", "count 2")]


def test_what_a_mistake_quotes_is_bounded():
    class Quoting(Counter):
        """Quotes the model in full."""

        @tool
        def add(self, number: str) -> str:
            """Add.

            Args:
                number: How much.
            """
            raise ToolError(f"Not a number: {number}")

    answer = text_of(started(Quoting).step(call("add", number="9" * 50_000)).observation[0])
    assert len(answer) <= 8_000
    assert "[cut: 50" in answer


# What breaks around the model.


@pytest.mark.parametrize(("number", "message"), [(13, "broken inside"), (14, "the server is gone")])
def test_what_breaks_fails_the_episode_and_never_becomes_an_observation(number: int, message: str):
    env = started()
    with pytest.raises(InfrastructureError, match=message):
        env.step(call("add", number=number))
    assert env.reason is Reason.INFRASTRUCTURE
    assert env.reason.ending is Ending.FAILED
    with pytest.raises(ResetNeeded):
        env.step(call("add", number=1))
    env.reset(seed=1)
    assert env.reason is None


@pytest.mark.parametrize("hook", ["start", "grade"])
def test_a_hook_that_breaks_fails_the_episode(hook: str):
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


def test_an_unknown_channel_is_the_authors_mistake():
    class Misspelt(Counter):
        """Pays into nothing."""

        def grade(self) -> dict[str, float]:
            self.reward("outcom", 1.0)
            return {}

    with pytest.raises(UsageError, match="unknown reward channel 'outcom'"):
        started(Misspelt).step(call("done"))


# Arguments.


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"split": "tests"}, TaskError, "unknown split 'tests'; this task source has: train, test"),
        ({"max_turns": 0}, UsageError, "max_turns must be a whole number from 1"),
        ({"dialect": "hermès"}, UsageError, "did you mean 'hermes'"),
        ({"scheme": Scheme({OUTCOME: 1.0, "format": 1.0})}, UsageError, "unsound reward scheme"),
        ({"scheme": "outcom"}, UsageError, "there is no scheme 'outcom'; did you mean 'outcome'"),
        ({"scheme": 3}, UsageError, "there is no scheme 3. There are: default, outcome, d_ra"),
    ],
)
def test_arguments_that_cannot_be_are_refused(kwargs: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        Counter(**kwargs)


class Shaped(Counter):
    """Has schemes of its own."""

    scheme = Scheme({OUTCOME: 1.0, "final": 0.5})
    schemes = {"halved": Scheme({OUTCOME: 1.0, "final": 0.25})}


class Reshaped(Shaped):
    """Has another default, and one scheme more."""

    scheme = Scheme({OUTCOME: 2.0})
    schemes = {"bare": Scheme({OUTCOME: 3.0}), "outcome": Scheme({OUTCOME: 5.0})}


def test_schemes_are_chosen_by_name():
    assert Shaped().scheme is Shaped(scheme="default").scheme is Shaped.scheme
    assert Shaped(scheme="halved").scheme.weights["final"] == 0.25
    assert Shaped(scheme="outcome").scheme == Scheme()
    assert Shaped(scheme="d_ra").scheme == Shaped.scheme.ungated()


def test_a_subclass_adds_to_the_schemes_of_its_base():
    weights = {name: scheme.weights[OUTCOME] for name, scheme in Reshaped.schemes.items()}
    assert weights == {"default": 2.0, "outcome": 5.0, "d_ra": 2.0, "halved": 1.0, "bare": 3.0}


def test_a_default_scheme_that_is_not_the_classs_own_is_the_authors_mistake():
    with pytest.raises(UsageError, match=r"Torn\.schemes\['default'\] is not Torn\.scheme"):
        type("Torn", (Counter,), {"schemes": {"default": Scheme({OUTCOME: 9.0})}})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tsk": 1}, UsageError, r"unknown reset options \['tsk'\]; known: index, split, task, training_step"),
        ({"training_step": -1}, UsageError, "training_step is a whole number from 0 upwards, not -1"),
        ({"training_step": 1.5}, UsageError, "not 1.5"),
        ({"training_step": True}, UsageError, "not True"),
        ({"index": "1"}, UsageError, "the index of a task is a whole number, not 'str'"),
        ({"index": True}, UsageError, "not 'bool'"),
        ({"index": 0.0}, UsageError, "not 'float'"),
        ({"split": "dev"}, TaskError, "unknown split 'dev'"),
        ({"task": "counter/test/99"}, TaskError, "has no task 99"),
    ],
)
def test_reset_options_that_cannot_be_are_refused(options: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        Counter().reset(options=options)


def test_an_index_of_numpy_is_a_number():
    env = Counter()
    env.reset(options={"split": "train", "index": np.int64(1)})
    assert env.task == env.tasks.get("train", 1)


@pytest.mark.parametrize("dialect", [5, None, object(), ["hermes"]])
def test_what_is_no_dialect_is_refused(dialect: Any):
    with pytest.raises(UsageError, match="is not a dialect"):
        Counter(dialect=dialect)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_a_seed_that_is_none_is_refused(seed: Any):
    with pytest.raises(UsageError, match="a seed is a whole number"):
        Counter().reset(seed=seed)


def test_options_choose_the_task():
    env = Counter()
    assert env.reset(options={"split": "test", "index": 2})[1]["task"] == "counter/test/2"
    assert env.reset(options={"task": "counter/train/7"})[1]["task"] == "counter/train/7"
    assert env.reset(options={"task": counter_task("test", 1)})[1]["split"] == "test"


def test_an_environment_needs_an_outcome_channel():
    with pytest.raises(UsageError, match=r"Aimless\.channels needs an 'outcome' channel"):
        type("Aimless", (Env,), {"channels": {"format": Channel("readable")}})


def test_an_environment_without_tasks_or_solution_says_so():
    class Bare(Env):
        """Nothing at all."""

    with pytest.raises(UsageError, match="Bare has no tasks of its own; pass tasks="):
        Bare()
    with pytest.raises(UsageError, match=r"Bare has no solution\(\)"):
        next(iter(Bare(tasks=Counter.default_tasks()).solution(counter_task("train", 1))))


# What it shows.


def test_the_opening_is_the_instructions_and_the_prompt():
    observation, info = Counter().reset(options={"split": "test", "index": 2})
    assert [message.get("role") for message in observation] == ["system", "user"]
    assert "add" in text_of(observation[0])
    assert text_of(observation[1]) == "Count to 3."
    assert {key: info[key] for key in ("task", "split", "difficulty")} == {
        "task": "counter/test/2",
        "split": "test",
        "difficulty": 1,
    }
    assert [entry["function"]["name"] for entry in info["tools"]] == ["add", "done"]


class Telling(Counter):
    states_turns = True
    example_call = ToolCall("add", {"number": 2})
    system_prompt = "Count."


@pytest.mark.parametrize(("turns", "said"), [(None, "You have 8 turns,"), (3, "You have 3 turns,"), (1, "1 turn,")])
def test_the_turns_that_are_stated_are_those_there_are(turns: int | None, said: str):
    env = Telling(max_turns=turns)
    assert said in text_of(env.reset(seed=0)[0][0])
    result, count = env.step(call("add", number=0)), 1
    while not result.truncated:
        result, count = env.step(call("add", number=0)), count + 1
    assert count == env.max_turns
    assert "You have" not in text_of(Counter().reset(seed=0)[0][0])


@pytest.mark.parametrize("dialect", ["hermes", "tags", "fenced", "compact"])
def test_the_example_call_is_written_in_the_dialect_and_can_be_read_back(dialect: str):
    env = Telling(dialect=dialect)
    prompt = text_of(env.reset(seed=0)[0][0])
    written = prompt.partition("\n\nFor example:\n")[2]
    assert env.dialect.parse(written, env.tools).calls == (Telling.example_call,)


def test_no_example_is_shown_of_a_tool_that_is_not_offered_or_where_calls_are_native():
    env = Telling()
    env.tools = env.tools.only("done")
    assert "For example" not in text_of(env.reset(seed=0)[0][0])
    assert text_of(Telling(dialect="native").reset(seed=0)[0][0]).startswith("Count. You have 8 turns,")


def test_an_environment_without_tools_answers_text():
    env = Parrot()
    env.reset(seed=1)
    result = env.step("hello")
    assert (result.observation, result.reward, result.terminated) == (
        [{"role": "user", "content": "hello!"}],
        1.0,
        True,
    )


def test_rendering_shows_the_conversation():
    env = started(render_mode="ansi")
    env.step("hm")
    assert "[user] Count to 3." in env.render()
    assert "[assistant] hm" in env.render()
    assert started().render() is None


def test_infos_and_rewards_of_past_turns_do_not_change():
    env = started()
    first = env.step(call("add", number=1)).info["rewards"]
    env.step(call("done"))
    assert first == {OUTCOME: 0.0, "format": 1.0, "final": 0.0}


# States.


def test_a_snapshot_brings_an_episode_back():
    env = started()
    env.step(call("add", number=2))
    saved = env.snapshot()
    env.step(call("add", number=5))
    other = Counter()
    other.restore(saved)
    assert (other.count, other.task.id) == (2, "counter/test/2")
    assert text_of(other.step(call("add", number=1)).observation[0]) == "count 3"


def test_closing_releases_and_may_be_repeated():
    env = Counter()
    env.close()
    env.close()
    assert env.released == 2


# Gymnasium.


def test_gymnasiums_wrappers_see_an_ordinary_environment():
    env: Any = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(Counter(), max_episode_steps=2))
    env.reset(seed=1, options={"split": "test", "index": 0})
    env.step(call("add", number=1))
    _, reward, terminated, truncated, info = env.step(call("add", number=1))
    assert (reward, terminated, truncated, info["episode"]["l"]) == (0.0, False, True, 2)


def test_the_training_step_reaches_environments_through_wrappers_and_vectors_for_one_episode():
    env: Any = gymnasium.wrappers.TimeLimit(Counter(), max_episode_steps=2)
    env.reset(seed=1, options={"training_step": 3})
    assert env.unwrapped.training_step == 3
    assert env.reset(seed=1) == env.reset(seed=1, options={"training_step": 4})
    env.reset(seed=1)
    assert env.unwrapped.training_step is None
    vector: Any = SyncVectorEnv([Counter, Counter])
    vector.reset(seed=3, options={"training_step": 5})
    assert [each.training_step for each in vector.envs] == [5, 5]


def test_a_snapshot_keeps_the_training_step():
    env, other = Counter(), Counter()
    env.reset(seed=1, options={"training_step": 3})
    other.restore(env.snapshot())
    assert other.training_step == 3


def test_a_vector_of_environments_resets_what_has_ended():
    vector: Any = SyncVectorEnv([Counter, Counter])
    vector.reset(seed=3)
    *_, terminations, _, _ = vector.step((call("done"), call("add", number=1)))
    assert terminations.tolist() == [True, False]
    *_, terminations, truncations, _ = vector.step((call("done"), call("add", number=1)))
    assert not terminations.any()
    assert not truncations.any()
    vector.close()


def test_a_gated_scheme_pays_only_when_the_gate_opens():
    gated = Scheme({OUTCOME: 1.0, "format": 0.1}, (Gate(OUTCOME, 1.0, ("format",)),), frozenset({"format"}))
    env = started(scheme=gated)
    paid = [env.step(call("add", number=3)).reward, env.step(call("done")).reward]
    assert paid == pytest.approx([0.0, 1.1])


def test_solutions_solve_in_every_dialect():
    for dialect in ("hermes", "tags", "fenced", "compact"):
        env = make("guess", dialect=dialect)
        env.reset(seed=5)
        *_, result = steps(env, env.solution(env.task))
        assert result.info["is_success"], dialect
