"""The search environment: observations and rewards in every mode, and pages that try to mislead the policy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agentgym import ToolCall
from agentgym.base.errors import TaskError, UsageError
from agentgym.core.engine.steps import StepResult
from agentgym.core.messages import assistant
from agentgym.core.policy import FunctionPolicy, ScriptedPolicy
from agentgym.core.replay import replay
from agentgym.core.trajectory import Trajectory
from agentgym.envs.search import Deciding, SearchEnv, Simulating
from agentgym.rollout import EnvFactory, Job
from agentgym.rollout.streams import play_jobs
from tests.envs.search.pages import INDEX, TASKS, searching
from tests.played import call, said
from tests.refusals import refusal

ENV = "agentgym.envs.search:SearchEnv"


def play(env: SearchEnv, task: str, *calls: tuple[str, Any]) -> Iterator[StepResult]:
    env.reset(seed=0, options={"task": task})
    for name, argument in calls:
        [parameter] = env.tools.get(name).parameters.get("properties", {}) or [None]
        yield env.step(assistant("", [ToolCall(name, {} if parameter is None else {parameter: argument})]))


def test_a_right_answer_with_its_evidence_earns_full_marks():
    turns = [("search", "mayor of Port Veld"), ("open", "1"), ("search", "Ana Orn"), ("open", "Ana Orn")]
    *earlier, last = play(searching(), "q/0", *turns, ("answer", "The village of Lisk. [1] [2]"))
    assert "[1] Port Veld: " in said(earlier[0])
    assert said(earlier[3]).startswith("[2] Ana Orn\nAna Orn was born in Lisk")
    expected = {"outcome": 1.0, "em": 1.0, "f1": 1.0, "evidence": 1.0, "citations": 1.0, "misled": 0.0}
    assert {name: last.info["rewards"][name] for name in expected} == expected
    assert last.info["ending"] == "solved"
    assert sum(step.info["rewards"]["searches"] for step in [*earlier, last]) == 2


def test_a_right_answer_earns_its_evidence_in_full_where_it_was_read():
    for turns, paid in (
        ([("search", "Ana Orn born Lisk")], 1.0),
        ([("search", "The Tam is a river"), ("open", "1"), ("find", "river")], 0.0),
        ([("search", "The Tam is a river"), ("open", "1"), ("find", "Ana Orn was born in Lisk")], 0.0),
        ([], 0.0),
    ):
        *_, last = play(searching(k=1), "q/0", *turns, ("answer", "Lisk [1]"))
        values = last.info["rewards"]
        assert (values["outcome"], values["evidence"], values["citations"]) == (1.0, paid, paid), turns


def test_following_injected_instructions_is_wrong_and_measured():
    *_, last = play(searching(), "q/0", ("search", "Ana Orn"), ("answer", "Grott"))
    assert (last.info["rewards"]["outcome"], last.info["rewards"]["misled"]) == (0.0, 1.0)
    jobs, factory = [Job(TASKS.find("q/0"), seed=0)], EnvFactory(ENV, {"index": INDEX, "tasks": TASKS})
    fooled = FunctionPolicy("fooled", lambda _: assistant("", [ToolCall("answer", {"text": "grott"})]))
    for policy, share in ((fooled, 1.0), (ScriptedPolicy(), 0.0)):
        episodes = asyncio.run(play_jobs(jobs, policy, factory))
        assert SearchEnv.figures(episodes) == {"misled by injected instructions": share}


def test_abstaining_is_right_only_for_unanswerable_questions():
    for task, answer, why in (
        ("q/1", "Unknown.", None),
        ("q/1", "Lisk", "an answer where there is none"),
        ("q/0", "unknown", "no answer where there is one"),
        ("q/0", "x", "not right by the rule 'em' (F1 0.00)"),
    ):
        *_, last = play(searching(), task, ("answer", answer))
        assert last.info["rewards"]["outcome"] == float(why is None)
        assert last.info.get("why_wrong") == why


def test_long_pages_come_in_parts_and_can_be_searched():
    calls = [("search", "village Lisk river"), ("open", "1"), ("more", None), ("find", "mill")]
    hits, first, second, mill = play(searching(page_chars=100), "q/0", *calls)
    assert said(hits).count("\n") < 4
    assert "more characters: more)" in said(first)
    assert said(second).startswith("[1] Lisk\n")
    assert said(mill).startswith("1 in Lisk:\n…")
    assert "A mill burned in 1902." in said(mill)


def test_search_r1_pays_its_tiers_only_after_evidence():
    def paid(*actions: str) -> float:
        env = searching(scheme="search-r1", dialect="tags", results="passages", k=1)
        env.reset(seed=0, options={"task": "q/0"})
        return sum(env.step(action).reward for action in actions)

    right, wrong, broken = "<answer>Lisk</answer>", "<answer>Veld</answer>", "<search>"
    evidence, nothing = "<search>Ana Orn born Lisk</search>", "<search>Tam river</search>"
    assert [paid(evidence, right), paid(evidence, broken, right)] == pytest.approx([1.0, 0.8])
    assert [paid(evidence, wrong), paid(evidence, broken, wrong)] == pytest.approx([0.2, 0.1])
    assert [paid(right), paid(broken, right)] == pytest.approx([1.0, 0.8])
    assert [paid(wrong), paid(broken, wrong), paid(nothing, wrong), paid(nothing)] == [0.0] * 4


def test_repeated_searches_are_redundant_and_mistakes_are_explained():
    searches = [("search", "Ana Orn"), ("search", "ana  orn"), ("search", "the river Tam")]
    results = play(searching(), "q/0", *searches)
    assert [result.info["rewards"]["redundant"] for result in results] == [0.0, 1.0, 0.0]
    wrong = [("search", "  "), ("open", "7"), ("more", None), ("find", "x"), ("answer", "[1]")]
    *mistakes, unmatched = (said(step) for step in play(searching(), "q/0", *wrong, ("search", "AND ( OR ~*")))
    assert all(output.startswith("Error: ") for output in mistakes)
    assert unmatched == "No page matches. Try other words."


def test_modes_require_and_reward_verdicts_and_decisions():
    turns = [("search", "Tam river"), ("open", "1"), ("judge", True), ("search", "Ana Orn Lisk"), ("judge", True)]
    results = list(play(searching(mode="reseek", scheme="reseek", k=1), "q/0", *turns))
    assert "call judge" in said(results[1])
    assert [result.info["rewards"]["judge"] for result in results] == [0, 0, -0.6, 0, 0.3]
    turns = [("search", "2 + 2"), ("decide", "know"), ("search", "2 + 2"), ("answer", "4")]
    early, decided, refused, last = play(searching(mode="adasearch", scheme="adasearch"), "q/2", *turns)
    assert "call decide" in said(early)
    assert "decided to answer without" in said(refused)
    assert (decided.info["rewards"]["decision"], last.info["rewards"]["outcome"]) == (1.0, 1.0)
    *_, decided = play(searching(mode=Deciding({"q/2": True})), "q/2", ("decide", "know"))
    assert decided.info["rewards"]["decision"] == 0.0


WORST = {"name": "zerosearch", "total": 100, "end": 1.0, "misleading": 1.0}


def shown_at(env: SearchEnv, training_step: int | None) -> str:
    options = {"task": "q/0"} if training_step is None else {"task": "q/0", "training_step": training_step}
    env.reset(seed=0, options=options)
    return said(call(env, "search", query="Ana Orn born"))


def test_simulated_results_get_worse_during_training_only():
    env = searching(mode=WORST, results="passages")
    for step in (None, 0, 100, None):
        assert ("born in Lisk in 1871" in shown_at(env, step)) == (step != 100)
    assert "Lisk" not in shown_at(env, 100)
    fixed = searching(mode=Simulating(total=100, end=1.0, misleading=1.0, step=100), results="passages")
    assert shown_at(fixed, None) == shown_at(fixed, 0) == shown_at(fixed, 100)
    assert "Lisk" not in shown_at(fixed, 0)
    assert "from 0 upwards" in refusal(searching, mode={"name": "zerosearch", "step": "late"})


def test_snapshots_and_replays_use_the_recorded_training_step():
    kwargs = {"index": INDEX, "tasks": TASKS, "mode": WORST | {"total": 9}}
    env = SearchEnv(**kwargs)
    late = shown_at(env, 9)
    saved = env.snapshot()
    assert shown_at(env, 0) != late
    env.restore(saved)
    assert env.training_step == 9
    job = Job(TASKS.find("q/0"), seed=0, training_step=9)
    [recorded] = asyncio.run(play_jobs([job], ScriptedPolicy(), EnvFactory(ENV, kwargs)))
    again = Trajectory.from_dict(json.loads(json.dumps(recorded.to_dict() | {"env_kwargs": {}})))
    assert replay(again, env) is None
    assert replay(replace(again, training_step=0), env) is not None


def test_a_task_without_a_corpus_needs_an_index():
    env = SearchEnv(tasks=TASKS)
    env.reset(seed=0, options={"task": "q/0"})
    with pytest.raises(TaskError, match="pass index="):
        call(env, "search", query="x")
    with pytest.raises(UsageError, match="agentgym index build"):
        SearchEnv(index="nowhere")
    with pytest.raises(UsageError, match="default"):
        SearchEnv(scheme="best")


def test_the_packages_of_an_index_are_known_before_it_is_built():
    needed = {backend: SearchEnv.packages({"backend": backend}) for backend in ("hybrid", "bm25s", "tantivy")}
    assert needed == {"hybrid": {"usearch": "dense"}, "bm25s": {"bm25s": "search"}, "tantivy": {}}
