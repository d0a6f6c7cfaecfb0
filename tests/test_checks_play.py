"""What the checks play with and compare: players, episodes, traces, and how differences are told."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from agentgym.checks.outcomes import CheckFailed
from agentgym.checks.play import (
    Broken,
    Episode,
    canonical,
    difference,
    helpless_player,
    idle_player,
    is_over,
    must_equal,
    play,
    random_player,
    replayed,
    short,
    stubborn_player,
)
from agentgym.endings import Reason
from agentgym.engine.spaces import Action
from agentgym.engine.steps import StepResult
from agentgym.env import Env
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.script import solution_player
from agentgym.task import Task
from tests.counter_env import Counter, call, counter_task

TASK = counter_task("test", 2)


def say(*actions: Action) -> Any:
    """Return a player of some actions."""
    return lambda env, task: iter(actions)


class Patient(Counter):
    """Never ends by itself."""

    def _limit_reached(self) -> Reason | None:
        return None


class Proofless(Counter):
    """Its solution says what no dialect can write as JSON."""

    def solution(self, task: Task) -> Any:
        yield ToolCall("add", {"number": float("inf")})
        yield "I am done."


# Episodes.


def test_an_episode_is_played_until_it_ends():
    episode = play(Counter(), TASK, 4, say(call("add", number=3), call("done"), call("add", number=1)))
    assert [text_of(result.observation[-1]) for result in episode.results] == ["count 3", "noted"]
    assert episode.actions == [call("add", number=3), call("done")]
    assert (episode.outcome, episode.reward, episode.ended, episode.reason) == (1.0, 1.0, True, Reason.ANSWERED)
    assert [turn["final"] for turn in episode.turns] == [0.0, 1.0]


def test_an_episode_goes_no_further_than_its_player():
    one, none = play(Counter(), TASK, 4, say(call("add", number=3))), play(Counter(), TASK, 4, say())
    assert (one.ended, one.reason, len(one.results)) == (False, None, 1)
    assert (none.ended, none.reason, none.outcome, none.reward) == (False, None, 0.0, 0.0)


def test_a_player_gives_up_on_an_episode_that_has_no_end():
    assert len(play(Patient(max_turns=4), TASK, 0, idle_player).results) > 4


def test_a_player_that_is_a_generator_is_sent_every_observation():
    seen: list[str] = []

    def player(env: Env, task: Task) -> Iterator[Action]:
        for number in (1, 2):
            observation = yield call("add", number=number)
            seen.append(text_of(observation[-1]))

    play(Counter(), TASK, 0, player)
    assert seen == ["count 1", "count 3"]


def test_the_seconds_of_an_episode_are_those_of_its_resets_and_steps():
    began = time.perf_counter()
    episode = play(Counter(), TASK, 0, say("a", "b"))
    most = time.perf_counter() - began
    assert len(episode.step_s) == 2
    assert all(0.0 < seconds < most for seconds in (episode.reset_s, *episode.step_s))
    assert episode.seconds == episode.reset_s + sum(episode.step_s)
    assert Episode(TASK, 0, [], {}).seconds == 0.0


def test_an_episode_plays_again_as_it_was():
    episode = play(Counter(), TASK, 4, solution_player)
    again = replayed(Counter(), episode)
    assert again.trace() == episode.trace()
    assert len(again.trace()) == 1 + len(episode.results)


@pytest.mark.parametrize(
    ("actions", "where"), [((call("add", number=13),), "turn 1"), (("hm", call("add", number=13)), "turn 2")]
)
def test_what_breaks_an_episode_is_told_with_its_turn_and_what_had_been_played(actions: tuple[Action, ...], where: str):
    with pytest.raises(Broken, match=rf"task 'counter/test/2', {where}: InfrastructureError.*broken inside") as broken:
        play(Counter(), TASK, 0, say(*actions))
    assert len(broken.value.episode.results) == len(actions) - 1


def test_what_breaks_a_reset_is_told_as_such():
    class Broken_(Counter):
        """Has no disk."""

        def start(self, task: Task) -> None:
            raise OSError("no disk")

    with pytest.raises(Broken, match=r"task 'counter/test/2', reset: .*no disk"):
        play(Broken_(), TASK, 0, idle_player)


@pytest.fixture
def _ctrl_c_raises() -> Iterator[None]:
    """What runs the tests may have the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_raises")
def test_a_program_that_is_told_to_end_ends():
    def player(env: Env, task: Task) -> Iterator[Action]:
        raise KeyboardInterrupt
        yield ""

    with pytest.raises(KeyboardInterrupt):
        play(Counter(), TASK, 0, player)


@pytest.mark.parametrize(("flags", "over"), [((0, 0), False), ((1, 0), True), ((0, 1), True), ((1, 1), True)])
def test_a_step_that_terminates_or_truncates_ends_the_episode(flags: tuple[int, int], over: bool):
    result = StepResult([], 0.0, bool(flags[0]), bool(flags[1]), {})
    assert is_over(result) is over
    episode = Episode(TASK, 0, [], {}, results=[StepResult([], 0.0, False, False, {}), result])
    assert episode.ended is over
    assert episode.outcome == 0.0


# Players.


def test_the_solution_is_written_in_the_environments_dialect_and_hears_what_comes_of_it():
    env = Counter(dialect="fenced")
    episode = play(env, TASK, 0, solution_player)
    assert [type(action) for action in episode.actions] == [str, str]
    assert episode.outcome == 1.0


def test_what_no_dialect_can_write_is_a_message_and_text_stays_text():
    first, second = play(Proofless(), TASK, 0, solution_player).actions
    assert first == assistant("", [ToolCall("add", {"number": float("inf")})])
    assert second == "I am done."


@pytest.mark.parametrize(("player", "said"), [(idle_player, ""), (helpless_player, "I do not know.")])
def test_players_without_a_plan_say_the_same_for_ever(player: Any, said: str):
    assert list(islice(player(Counter(), TASK), 40)) == [said] * 40


def test_a_random_player_is_the_same_for_the_same_task_and_never_stops():
    drawn = [list(islice(random_player(Counter(), counter_task("test", index)), 40)) for index in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(map(str, drawn[0]))) > 10


def test_a_stubborn_player_does_first_what_the_solution_does_and_nothing_else():
    env = Counter()
    env.reset(seed=0, options={"task": TASK})
    assert list(islice(stubborn_player(env, TASK), 3)) == [next(iter(solution_player(env, TASK)))] * 3


# Traces and differences.


def test_equal_data_has_equal_text_however_it_is_held():
    assert canonical({"b": 1, "a": (1, 2)}) == canonical({"a": [1, 2], "b": 1})
    assert canonical({1: object()}) == canonical({"1": object()})
    assert canonical([1]) != canonical([2])


def test_the_order_of_a_set_is_seen():
    assert canonical({"names": {"x"}}) == canonical({"names": {"x"}})
    assert "x" in canonical({"names": {"x"}})


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (["a"], ["b"], "here: the opening differs: ‹a› became ‹b›. Do this."),
        (["a", "b", "c"], ["a", "b", "d"], "here: turn 2 differs: ‹c› became ‹d›. Do this."),
        (["a", "b"], ["a", "b", "c"], "here: 1 turns the first time, 2 the second. Do this."),
        (["a", "b"], ["a"], "here: 1 turns the first time, 0 the second. Do this."),
    ],
)
def test_the_first_turn_that_differs_is_named(left: list[str], right: list[str], said: str):
    with pytest.raises(CheckFailed) as failed:
        must_equal(left, right, "here", "Do this.")
    assert str(failed.value) == said
    must_equal(left, left, "here", "Do this.")


def test_a_difference_far_into_a_text_is_shown_with_what_stands_around_it():
    left, right = "x" * 500 + "old" + "y" * 500, "x" * 500 + "new" + "y" * 500
    told = difference(left, right)
    before, _, after = told.partition(" became ")
    assert "xold" in before
    assert "xnew" in after
    assert len(told) < 250
    assert difference("abc", "abcd") == "‹abc› became ‹abcd›"
    assert difference("b" + "x" * 9, "c" + "x" * 9) == "‹bxxxxxxxxx› became ‹cxxxxxxxxx›"


@pytest.mark.parametrize("length", [1, 89, 90, 91, 5_000])
def test_a_long_value_is_cut_and_says_so(length: int):
    told = short("x" * length)
    assert told == (f"‹{'x' * length}›" if length <= 90 else f"‹{'x' * 89}…›")


def test_only_text_is_quoted_and_it_takes_one_line():
    assert short("a\n  b") == "‹a b›"
    assert short(["a"]) == "['a']"
    assert short("abcdef", limit=4) == "‹abc…›"


class Careless(Counter):
    """Writes into the task that it plays."""

    def start(self, task: Task) -> None:
        super().start(task)
        task.data["also"] = 5  # type: ignore[index]


def test_the_first_change_of_a_task_is_told_by_what_was_changed():
    episode = play(Careless(), counter_task("test", 2), 0, solution_player)
    assert episode.task_change is not None
    assert "changed task.data['also']" in episode.task_change
