"""What `useful-work-pays` says of environments in which each step costs something."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentgym.checks import CheckResult, CheckStatus, run_checks
from agentgym.checks.contest import Contest
from agentgym.checks.outcomes import CheckFailed, CheckWarned
from agentgym.checks.pay import useful_work_pays
from agentgym.checks.play import Episode
from agentgym.checks.subject import Subject
from agentgym.endings import Reason
from agentgym.engine.steps import StepResult
from agentgym.rewards import OUTCOME
from tests.grid_envs import lake_task

TASK = lake_task("train", 0)


def judged(env: str) -> CheckResult:
    return run_checks(f"tests.grid_envs:{env}", only=["plays", "useful-work-pays"]).row("useful-work-pays")


def test_a_cost_of_each_step_is_a_warning_that_names_who_gains_by_it_and_the_mend():
    row = judged("LakeEnv")
    assert row.status is CheckStatus.WARN
    assert "task 'lake/train/0': the adversary 'idle' is paid 0, an honest attempt that fails -0.07" in row.message
    assert "charge only those that solve it, with Gate(on='outcome', at_least=1" in row.message


def test_a_cost_that_only_solved_episodes_pay_is_no_warning():
    assert judged("GatedLakeEnv").status is CheckStatus.PASS


def test_stalling_that_costs_less_than_steps_is_refused():
    row = judged("FreeLookLakeEnv")
    assert row.status is CheckStatus.FAIL
    assert "the adversary 'stalling' is paid 0, an honest attempt that fails -0.07" in row.message


def test_being_paid_for_giving_up_is_refused_though_steps_cost():
    row = judged("PaidRestLakeEnv")
    assert row.status is CheckStatus.FAIL
    assert "give_up: empty)' is paid 0.1" in row.message


def test_a_cost_that_pays_its_mean_does_not_excuse_turns_without_cost():
    row = judged("MeanCostLakeEnv")
    assert row.status is CheckStatus.FAIL
    assert "the adversary 'idle' is paid 0" in row.message


def episode(reason: Reason, turns: Sequence[dict[str, float]]) -> Episode:
    """Return an episode that earned this in its turns."""
    results = [StepResult([], 0.0, False, False, {"rewards": turn}) for turn in turns]
    return Episode(TASK, 0, [], {}, [""] * len(turns), results, reason=reason)


def against(adversary: Episode) -> Subject:
    """Return an environment whose honest failures take three steps, against one adversary."""
    subject = Subject("tests.grid_envs:PaidRestLakeEnv")
    honest = episode(Reason.ANSWERED, [{OUTCOME: 0.0, "rest": 0.0, "move": -1.0}] * 3)
    subject.contests = [Contest(TASK, (honest,), {"junk": adversary})]
    return subject


def test_who_gives_up_may_save_costs_and_gain_nothing_besides():
    with pytest.raises(CheckWarned, match=r"'junk' is paid -0\.01, .* fails -0\.03, as each step costs something"):
        useful_work_pays.run(against(episode(Reason.ANSWERED, [{OUTCOME: 0.0, "rest": 0.0, "move": -1.0}])))
    with pytest.raises(CheckFailed, match=r"'junk' is paid -0\.0099, an honest"):
        useful_work_pays.run(against(episode(Reason.ANSWERED, [{OUTCOME: 0.0, "rest": 0.001, "move": -1.0}])))


def test_an_episode_at_the_turn_limit_is_stalling_even_if_it_gains_nothing():
    with pytest.raises(CheckFailed, match=r"'junk' is paid 0, an honest"):
        useful_work_pays.run(against(episode(Reason.MAX_TURNS, [{OUTCOME: 0.0, "rest": 0.0, "move": 0.0}] * 3)))
