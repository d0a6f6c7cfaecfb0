"""Adversaries without useful work, and the honest attempts that their pay is compared with."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Any, Literal

import pytest

from agentgym.checks.adversaries import KINDS, adversaries, ending_tools, junk_arguments, shown_action
from agentgym.checks.contest import Contest
from agentgym.checks.luck import is_no_luck
from agentgym.checks.outcomes import CheckFailed, CheckSkipped
from agentgym.checks.pay import junk_scores_low, paid_schemes, useful_work_pays
from agentgym.checks.play import Episode, assistant_call, play
from agentgym.checks.subject import Subject
from agentgym.engine.spaces import Action
from agentgym.engine.steps import StepResult
from agentgym.env import Env
from agentgym.messages import ToolCall, text_of
from agentgym.rewards import OUTCOME, Scheme
from agentgym.task import Task
from agentgym.toolset import Tool, tool
from tests.sound_envs import SoundEnv, SoundTalkEnv, boxes_task

TASK = boxes_task("train", 0)
LOOK, ANSWER = (assistant_call(ToolCall(name, {key: "1"})) for name, key in (("look", "box"), ("answer", "text")))


def test_the_adversaries_stall_repeat_and_hand_in_junk():
    subject = Subject("tests.sound_envs:SoundEnv")
    for one in subject.contests:
        played = one.adversaries
        assert {"idle", "helpless", "one call, repeated", "stalling", "junk at once (empty)"} <= set(played)
        assert len(played["stalling"].results) == len(played["one call, repeated"].results) == SoundEnv.max_turns
        pasted = played["one call, then junk (pasted)"]
        looked = text_of(pasted.results[0].observation[-1])
        assert pasted.actions[1] == assistant_call(ToolCall("answer", {"text": looked}))


def test_a_control_that_says_it_is_unsound_is_left_out():
    with Subject("tests.sound_envs:SoundEnv").env(scheme="d_ra") as env:
        assert set(paid_schemes(env)) == {"default", "outcome"}
    with Subject("tests.sound_envs:SoundEnv").env(scheme=Scheme({"outcome": 2.0})) as env:
        assert set(paid_schemes(env)) == {"in use", "default", "outcome"}


def test_arguments_are_shown_whole_as_long_as_they_are_short():
    with Subject("tests.sound_envs:SoundEnv").env() as env:
        for length, ends in ((53, "'"), (54, "…")):  # of 60 characters, `text=''` has 7
            shown = shown_action(env, assistant_call(ToolCall("answer", {"text": "x" * length})))
            assert shown.removesuffix(")").endswith(ends)


class Everything(SoundEnv):
    """Has a tool that takes everything."""

    @tool
    def take(
        self,
        text: str,
        count: int,
        share: float,
        sure: bool,
        names: list[str],
        facts: dict[str, int],
        way: Literal["a", "b", "c"],
        either: int | str,
        more: str = "",
    ) -> str:
        """Take it.

        Args:
            text: Words.
            count: How many.
            share: How much.
            sure: Whether.
            names: Which.
            facts: What.
            way: How.
            either: Of two kinds.
            more: Not needed.
        """
        return text


JUNK: dict[str, list[Any]] = {
    "empty": ["", 0, 0.0, False, [], {}, "a", 0],
    "zero": ["0", 0, 0.0, False, ["0"], {}, "c", 0],
    "word": ["something", 1, 1.0, True, ["something"], {}, "c", 1],
    "prompt": ["the prompt", 1, 1.0, True, ["the prompt"], {}, "c", 1],
    "pasted": ["the page", 1, 1.0, True, ["the page"], {}, "c", 1],
}


@pytest.mark.parametrize("kind", KINDS)
def test_junk_has_the_right_types_and_says_nothing_of_use(kind: str):
    take: Tool = Everything.tools.get("take")
    arguments = junk_arguments(take, kind, "the prompt", "the page")
    assert list(arguments.values()) == JUNK[kind]
    assert take.check(arguments) == {**arguments, "more": ""}


def moves(player: Any, env: Env, count: int, task: Task = TASK) -> list[Action]:
    return list(islice(player(env, task), count))


def test_tools_that_end_an_episode_are_those_that_were_called_last_in_one_that_terminated():
    env = SoundEnv()
    answered = play(env, TASK, 0, lambda *_: iter([LOOK, LOOK, ANSWER]))
    truncated = play(env, TASK, 0, lambda *_: iter([LOOK] * 9))
    given_up = play(env, TASK, 0, lambda *_: iter([]))
    assert ending_tools(env, [truncated, given_up, answered]) == ("answer",)
    assert ending_tools(env, [truncated, given_up]) == ()


def test_junk_is_handed_in_through_every_tool_that_ends_an_episode():
    kinds, chosen = set(KINDS[:-1]), set[str]()
    for number in range(30):
        task = boxes_task("train", number)
        at_once = {f"junk at once ({kind})" for kind in kinds}
        found = set(adversaries(SoundEnv(), task, LOOK, ("answer",)))
        later = found - at_once - {"idle", "helpless", "one call, repeated", "stalling"}
        assert at_once < found
        assert len(later) == 2
        assert "one call, then junk (pasted)" in later
        chosen |= later
    assert chosen == {f"one call, then junk ({kind})" for kind in KINDS}, "each kind in some task"
    both = set(adversaries(SoundEnv(), TASK, LOOK, ("look", "answer")))
    assert {f"junk at once ({name}: {kind})" for name in ("look", "answer") for kind in kinds} < both
    assert len(both) == 4 + 2 * 6


def test_junk_at_once_is_the_same_call_for_ever():
    env = SoundEnv()
    env.reset(seed=0, options={"task": TASK})
    junk = adversaries(env, TASK, LOOK, ("answer",))["junk at once (prompt)"]
    assert moves(junk, env, 9) == [assistant_call(ToolCall("answer", {"text": TASK.prompt}))] * 9


def test_where_there_are_no_tools_junk_is_text():
    env = SoundTalkEnv()
    players = adversaries(env, TASK, "word", ())
    said = {kind: moves(players[f"junk at once ({kind})"], env, 2) for kind in KINDS[:-1]}
    assert said == {"empty": [""] * 2, "zero": ["0"] * 2, "word": ["something"] * 2, "prompt": [TASK.prompt] * 2}
    assert moves(players["stalling"], env, 3) == ["word"] * 3


def test_what_is_pasted_is_what_was_seen_last():
    env = SoundEnv()
    env.reset(seed=0, options={"task": TASK})
    paste = adversaries(env, TASK, LOOK, ("answer",))["one call, then junk (pasted)"](env, TASK)
    assert isinstance(paste, Generator)
    assert next(paste) == LOOK
    pages = [{"role": "tool", "content": "the first page"}, {"role": "tool", "content": "the last page"}]
    for _ in range(3):
        assert paste.send(pages) == assistant_call(ToolCall("answer", {"text": "the last page"}))


def test_one_call_is_repeated_for_ever():
    assert moves(adversaries(SoundEnv(), TASK, LOOK, ())["one call, repeated"], SoundEnv(), 9) == [LOOK] * 9


def test_who_stalls_takes_turns_between_a_legal_call_and_all_tools_that_do_not_end_it():
    env = Everything()
    calls = [text_name(action) for action in moves(adversaries(env, TASK, LOOK, ("answer",))["stalling"], env, 9)]
    assert calls == ["look", "look", "take"] * 3
    first = moves(adversaries(env, TASK, LOOK, ("answer",))["stalling"], env, 9)
    assert first[0] == first[3] == LOOK != first[1]


def test_who_stalls_never_ends_it_even_if_the_solution_does_at_once():
    env = Everything()
    players = adversaries(env, TASK, ANSWER, ("answer",))
    assert {text_name(action) for action in moves(players["stalling"], env, 9)} == {"look", "take"}
    bare = adversaries(env, TASK, ANSWER, ("look", "answer", "take"))
    assert moves(bare["stalling"], env, 3) == [""] * 3


def text_name(action: Any) -> str:
    return action["tool_calls"][0]["function"]["name"]


# Pay.


def paid(outcome: float = 0.0, effort: float = 0.0) -> Episode:
    """Return an episode that earned so much."""
    rewards = {OUTCOME: outcome, "effort": effort}
    return Episode(TASK, 0, [], {}, [""], [StepResult([], 0.0, True, False, {"rewards": rewards})])


def compared(*contests: Contest) -> Subject:
    """Return an environment under test whose contests are given."""
    subject = Subject("tests.broken_envs:PaysEveryLook")
    subject.contests = list(contests)
    return subject


def against(**adversaries: Episode) -> Contest:
    """Return a contest with honest attempts of which the best earned an effort of 1."""
    named = {name.replace("_", " "): episode for name, episode in adversaries.items()}
    return Contest(TASK, (paid(), paid(effort=1.0)), named)


def test_an_adversary_may_earn_as_much_as_an_honest_failure_and_no_more():
    assert "1 tasks, 3 schemes" in str(useful_work_pays.run(compared(against(idle=paid(effort=1.0)))))
    with pytest.raises(CheckFailed, match=r"scheme 'curious', task 'boxes/train/0': the adversary 'idle' is paid 0\.1"):
        useful_work_pays.run(compared(against(idle=paid(effort=1.0 + 1e-6))))


def test_an_adversary_that_solves_the_task_by_luck_is_not_compared():
    told = useful_work_pays.run(compared(against(idle=paid(outcome=1.0, effort=9.0))))
    assert str(told).endswith("honest failures earn 0.03 on average, the best adversary 0.00")


def test_junk_may_solve_half_of_the_tasks_and_no_more():
    right, wrong = against(**{"junk at once": paid(outcome=1.0)}), against(**{"junk at once": paid()})
    assert junk_scores_low.run(compared(right, right, wrong, wrong)) == "1 kinds of junk"
    with pytest.raises(CheckSkipped, match="3 tasks could be played in time, too few"):
        junk_scores_low.run(compared(right, right, right))
    honest_luck = against(idle=paid(outcome=1.0))
    assert junk_scores_low.run(compared(*[honest_luck] * 4)) == "0 kinds of junk"


def test_what_happens_often_is_no_luck_once_it_happens_often_enough():
    assert not is_no_luck(3, 4, 0.5)
    assert not is_no_luck(4, 4, 0.5)
    assert not is_no_luck(16, 24, 0.5)
    assert is_no_luck(19, 24, 0.5)
    assert is_no_luck(7, 7, 0.5)


def test_without_an_honest_failure_there_is_nothing_to_compare_with():
    for check in (useful_work_pays, junk_scores_low):
        with pytest.raises(CheckSkipped, match="no solution could be spoiled"):
            check.run(compared())
