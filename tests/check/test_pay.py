"""Adversaries do no useful work and may not be paid more than honest attempts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal

import pytest

from agentgym.check import CheckStatus, run_checks
from agentgym.check.adversaries import KINDS, adversaries, ending_tools, junk_arguments
from agentgym.check.honest import Contest
from agentgym.check.outcomes import CheckFailed, CheckSkipped, CheckWarned, is_no_luck
from agentgym.check.pay import junk_scores_low, paid_schemes, useful_work_pays
from agentgym.check.play import CheckedEpisode, assistant_call, play
from agentgym.check.subject import Subject
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import StepResult
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME, Scheme
from agentgym.core.task import Task
from agentgym.core.toolset import tool
from tests.check.sound_envs import SoundEnv, boxes_task
from tests.grid_envs import lake_task
from tests.refusals import differing

TASK, LAKE = boxes_task("train", 0), lake_task("train", 0)
LOOK, ANSWER = (assistant_call(ToolCall(name, {key: "1"})) for name, key in (("look", "box"), ("answer", "text")))


class Everything(SoundEnv):
    """Has a tool with arguments of all types."""

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
            text: A text.
            count: An integer.
            share: A number.
            sure: A flag.
            names: A list.
            facts: An object.
            way: A choice.
            either: One of two types.
            more: Optional.
        """
        return text


def moves(player: Any, env: Env, count: int, task: Task = TASK) -> list[Action]:
    return list(islice(player(env, task), count))


def called(action: Any) -> str:
    return action["tool_calls"][0]["function"]["name"]


def test_junk_has_the_right_types_and_no_useful_content():
    rows = [
        ("empty", ["", 0, 0.0, False, [], {}, "a", 0]),
        ("zero", ["0", 0, 0.0, False, ["0"], {}, "c", 0]),
        ("word", ["something", 1, 1.0, True, ["something"], {}, "c", 1]),
        ("prompt", ["the prompt", 1, 1.0, True, ["the prompt"], {}, "c", 1]),
        ("pasted", ["the page", 1, 1.0, True, ["the page"], {}, "c", 1]),
    ]
    take = Everything.tools.get("take")
    junk = {kind: junk_arguments(take, kind, "the prompt", "the page") for kind in KINDS}
    assert differing(lambda kind: list(junk[kind].values()), rows) == []
    assert all(take.check(arguments) == {**arguments, "more": ""} for arguments in junk.values())


def test_ending_tools_are_the_last_calls_of_terminated_episodes():
    env = SoundEnv()
    answered = play(env, TASK, 0, lambda *_: iter([LOOK, LOOK, ANSWER]))
    truncated = play(env, TASK, 0, lambda *_: iter([LOOK] * 9))
    given_up = play(env, TASK, 0, lambda *_: iter([]))
    assert ending_tools(env, [truncated, given_up, answered]) == ("answer",)
    assert ending_tools(env, [truncated, given_up]) == ()


def test_junk_is_submitted_through_every_ending_tool():
    kinds, later_kinds = set(KINDS[:-1]), set[str]()
    at_once = {f"junk at once ({kind})" for kind in kinds}
    for number in range(30):
        names = set(adversaries(SoundEnv(), boxes_task("train", number), LOOK, ("answer",)))
        later = names - at_once - {"idle", "helpless", "one call, repeated", "stalling"}
        assert at_once < names
        assert (len(later), "one call, then junk (pasted)" in later) == (2, True)
        later_kinds |= later
    assert later_kinds == {f"one call, then junk ({kind})" for kind in KINDS}
    both = set(adversaries(SoundEnv(), TASK, LOOK, ("look", "answer")))
    assert {f"junk at once ({name}: {kind})" for name in ("look", "answer") for kind in kinds} < both
    assert len(both) == 4 + 2 * 6


def test_junk_is_repeated_endlessly_and_a_paste_is_the_last_message():
    env = SoundEnv()
    env.reset(seed=0, options={"task": TASK})
    players = adversaries(env, TASK, LOOK, ("answer",))
    prompted = assistant_call(ToolCall("answer", {"text": TASK.prompt}))
    assert moves(players["junk at once (prompt)"], env, 9) == [prompted] * 9
    assert moves(players["one call, repeated"], env, 9) == [LOOK] * 9
    paste: Any = players["one call, then junk (pasted)"](env, TASK)
    assert next(paste) == LOOK
    pages = [{"role": "tool", "content": "the first page"}, {"role": "tool", "content": "the last page"}]
    pasted = assistant_call(ToolCall("answer", {"text": "the last page"}))
    assert [paste.send(pages) for _ in range(3)] == [pasted] * 3


def test_stalling_alternates_between_all_tools_that_do_not_end_the_episode():
    env = Everything()

    def stalls(solution: Any, *ending: str) -> list[Any]:
        return moves(adversaries(env, TASK, solution, ending)["stalling"], env, 9)

    first = stalls(LOOK, "answer")
    assert [called(action) for action in first] == ["look", "look", "take"] * 3
    assert first[0] == first[3] == LOOK != first[1]
    assert {called(action) for action in stalls(ANSWER, "answer")} == {"look", "take"}
    assert stalls(ANSWER, "look", "answer", "take") == [""] * 9


# Pay.


def test_schemes_declared_unsound_are_not_checked():
    assert set(paid_schemes(SoundEnv(scheme="d_ra"))) == {"default", "outcome"}
    assert set(paid_schemes(SoundEnv(scheme=Scheme({OUTCOME: 2.0})))) == {"in use", "default", "outcome"}


def paid(outcome: float = 0.0, effort: float = 0.0) -> CheckedEpisode:
    """Return an episode with these channel values."""
    rewards = {OUTCOME: outcome, "effort": effort}
    return CheckedEpisode(TASK, 0, [], {}, [""], [StepResult([], 0.0, True, False, {"rewards": rewards})])


def compared(*contests: Contest) -> Subject:
    """Return a subject with these contests."""
    subject = Subject("tests.check.broken_envs:PaysEveryLook")
    subject.contests = list(contests)
    return subject


def against(**adversaries: CheckedEpisode) -> Contest:
    """Return a contest whose best honest attempt earned an effort of 1."""
    named = {name.replace("_", " "): episode for name, episode in adversaries.items()}
    return Contest(TASK, (paid(), paid(effort=1.0)), named)


def test_an_adversary_may_earn_at_most_as_much_as_an_honest_failure():
    assert "1 tasks, 3 schemes" in str(useful_work_pays.run(compared(against(idle=paid(effort=1.0)))))
    with pytest.raises(CheckFailed, match=r"scheme 'curious', task 'boxes/train/0': the adversary 'idle' is paid 0\.1"):
        useful_work_pays.run(compared(against(idle=paid(effort=1.0 + 1e-6))))
    lucky = useful_work_pays.run(compared(against(idle=paid(outcome=1.0, effort=9.0))))
    assert str(lucky).endswith("honest failures earn 0.03 on average, the best adversary 0.00")


def test_junk_may_solve_at_most_half_of_the_tasks():
    right, wrong = against(**{"junk at once": paid(outcome=1.0)}), against(**{"junk at once": paid()})
    assert junk_scores_low.run(compared(right, right, wrong, wrong)) == "1 kinds of junk"
    with pytest.raises(CheckSkipped, match="3 tasks could be played in time, too few"):
        junk_scores_low.run(compared(right, right, right))
    assert junk_scores_low.run(compared(*[against(idle=paid(outcome=1.0))] * 4)) == "0 kinds of junk"
    rows: list[tuple[tuple[int, int], bool]]
    rows = [((3, 4), False), ((4, 4), False), ((16, 24), False), ((19, 24), True), ((7, 7), True)]
    assert differing(lambda cases: is_no_luck(cases[0], cases[1], 0.5), rows) == []
    for check in (useful_work_pays, junk_scores_low):
        with pytest.raises(CheckSkipped, match="no solution could be spoiled"):
            check.run(compared())


# Costs per step.


def test_step_costs_are_a_warning_and_gains_without_work_a_failure():
    rows = [
        ("LakeEnv", CheckStatus.WARN, "the adversary 'idle' is paid 0, an honest attempt that fails -0.07"),
        ("LakeEnv", CheckStatus.WARN, "charge only attempts that solve it, with Gate(on='outcome', at_least=1"),
        ("GatedLakeEnv", CheckStatus.PASS, ""),
        ("FreeLookLakeEnv", CheckStatus.FAIL, "'stalling' is paid 0, an honest attempt that fails -0.07"),
        ("PaidRestLakeEnv", CheckStatus.FAIL, "give_up: empty)' is paid 0.1"),
        ("MeanCostLakeEnv", CheckStatus.FAIL, "the adversary 'idle' is paid 0"),
    ]
    for env, status, words in rows:
        row = run_checks(f"tests.grid_envs:{env}", only=["plays", "useful-work-pays"]).row("useful-work-pays")
        assert (row.status, words in row.message) == (status, True), row


def costing(reason: Reason, turns: Sequence[dict[str, float]]) -> CheckedEpisode:
    """Return an episode with these channel values per turn."""
    results = [StepResult([], 0.0, False, False, {"rewards": turn}) for turn in turns]
    return CheckedEpisode(LAKE, 0, [], {}, [""] * len(turns), results, reason=reason)


def test_giving_up_may_save_step_costs_only_and_stalling_may_not():
    def run(reason: Reason, *turns: dict[str, float]) -> object:
        subject = Subject("tests.grid_envs:PaidRestLakeEnv")
        honest = costing(Reason.ANSWERED, [{OUTCOME: 0.0, "rest": 0.0, "move": -1.0}] * 3)
        subject.contests = [Contest(LAKE, (honest,), {"junk": costing(reason, turns)})]
        return useful_work_pays.run(subject)

    with pytest.raises(CheckWarned, match=r"'junk' is paid -0\.01, .* fails -0\.03, as each step costs something"):
        run(Reason.ANSWERED, {OUTCOME: 0.0, "rest": 0.0, "move": -1.0})
    with pytest.raises(CheckFailed, match=r"'junk' is paid -0\.0099, an honest"):
        run(Reason.ANSWERED, {OUTCOME: 0.0, "rest": 0.001, "move": -1.0})
    with pytest.raises(CheckFailed, match=r"'junk' is paid 0, an honest"):
        run(Reason.MAX_TURNS, *[{OUTCOME: 0.0, "rest": 0.0, "move": 0.0}] * 3)
