"""Rewards of useless policies in `search`, by every scheme and rule, compared with an honest failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.task import Task
from agentgym.envs.search import Judging, SearchEnv
from agentgym.envs.search.options import SCHEMES
from agentgym.tasks.search import SearchTasks
from tests.played import Moves, Play, calls, failing_honestly, play_episode
from tests.refusals import sampled

MODES: dict[str, dict[str, Any]] = {"reseek": {"mode": "reseek"}, "adasearch": {"mode": "adasearch"}}
"""The modes that schemes are made for."""


FIELDS = {"search": "query", "judge": "useful", "decide": "way", "answer": "text"}


def move(name: str, value: object) -> ToolCall:
    return ToolCall(name, {FIELDS[name]: value})


search, judge, decide, answer = (partial(move, name) for name in FIELDS)
SPOILED = answer("spoiled")


def junk_searches(count: int, *, judged: bool) -> list[ToolCall]:
    return [call for number in range(count) for call in (search(f"zzz {number}"), judge(judged))]


def searching_for_the_question(env: Env) -> Moves:
    if "decide" in env.tools.names:
        yield decide("search")
    yield search(env.task.prompt)
    if "judge" in env.tools.names:
        yield judge(True)
    yield answer("spoiled [1] [2]")


def repeating_the_question(env: Env) -> Moves:
    if "decide" in env.tools.names:
        yield decide("search")
    for _ in range(env.max_turns):
        yield search(env.task.prompt)


def answering(text: Callable[[Task], str]) -> Play:
    """Return the policy that answers at once with a text made from the task."""

    def play(env: Env) -> Moves:
        yield answer(text(env.task))

    return play


NAMES = answering(lambda task: ", ".join(task.data["named"]))


USELESS: dict[str, Play] = {
    "nothing": calls(),
    "junk at once": calls(SPOILED),
    "junk with citations": calls(answer("spoiled [1] [2]")),
    "search for the question, then junk": searching_for_the_question,
    "one search over and over": calls(*[search("zzz")] * 40),
    "the question over and over": repeating_the_question,
    "other searches to the end": calls(*[search(f"zzz {n}") for n in range(40)]),
    "words of the question": NAMES,
    "decide to know, then junk": calls(decide("know"), SPOILED),
    "decide, search, then junk": calls(decide("search"), search("zzz"), SPOILED),
    "junk searches judged useless": calls(*junk_searches(9, judged=False), SPOILED),
    "junk searches judged useful": calls(*junk_searches(9, judged=True), SPOILED),
    "junk searches judged useless to the end": calls(*junk_searches(20, judged=False)),
}


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def source() -> SearchTasks:
    return SearchTasks(passages=1_000)


@pytest.fixture(scope="module")
def tasks(source: SearchTasks) -> list[Task]:
    return [source.get("test", index) for index in range(60)]


@sampled(6, 25)
@pytest.mark.parametrize("scheme", ["default", *SCHEMES])
def test_useless_episodes_earn_at_most_as_much_as_an_honest_failure(
    scheme: str, count: int, source: SearchTasks, tasks: list[Task]
):
    for style in ("short", "full") if scheme == "default" else ("full",):
        env = SearchEnv(tasks=source, scheme=scheme, solution_style=cast(Any, style), **MODES.get(scheme, {}))
        honest = {task.id: play_episode(env, task, failing_honestly(SPOILED)).paid for task in tasks[:count]}
        for name, play in USELESS.items():
            for task in tasks[:count]:
                result = play_episode(env, task, play)
                assert not result.solved
                assert result.paid <= honest[task.id] + 1e-9, (name, task)
                if name in ("nothing", "junk at once", "junk with citations", "words of the question"):
                    assert result.paid <= 0.0, (name, task)
        assert sum(honest.values()) / len(honest) > 0.05


@pytest.mark.parametrize("scheme", ["default", "outcome", *SCHEMES])
def test_solved_tasks_earn_more_than_failures_in_every_scheme(scheme: str, source: SearchTasks, tasks: list[Task]):
    env = SearchEnv(tasks=source, scheme=scheme, **MODES.get(scheme, {}))
    for task in tasks[:20]:
        result = play_episode(env, task, lambda env: env.solution(env.task))
        assert result.solved
        assert result.channels["judge"] >= 0
        assert result.paid > play_episode(env, task, failing_honestly(SPOILED)).paid + 0.5


def pasting_hits(env: Env) -> Moves:
    output = yield search(env.task.prompt)
    yield answer("\n".join(map(text_of, output)))


WITHOUT_KNOWLEDGE: dict[str, Play] = {
    "hits": pasting_hits,
    "names of the question": NAMES,
    "alternatives": answering(lambda task: " or ".join(task.data["named"])),
    "numbers": calls(answer(" ".join(map(str, range(300))))),
    "yes and no": calls(answer("yes no")),
    "everything": calls(answer("unknown, yes, no, 1, 2, 3")),
    "denial": answering(lambda task: f"not {(task.gold['answers'] or ['x'])[0]}"),
}


@sampled(12, 60)
def test_no_rule_accepts_answers_given_without_knowledge(count: int, source: SearchTasks, tasks: list[Task]):
    for rule in ("em", "f1", "contains"):
        env = SearchEnv(tasks=source, solved=cast(Any, rule))
        for name, play in WITHOUT_KNOWLEDGE.items():
            assert not [task.prompt for task in tasks[:count] if play_episode(env, task, play).solved], (rule, name)


def test_repeated_results_are_useless_unless_a_scorer_says_otherwise(source: SearchTasks, tasks: list[Task]):
    [task, *_] = [task for task in tasks if task.gold["hop_count"] == 1]
    again = search(task.gold["hops"][0]["query"])
    twice = calls(again, judge(True), again, judge(True), again, judge(False))
    env = SearchEnv(tasks=source, mode="reseek", scheme="reseek")
    result = play_episode(env, task, twice)
    assert result.channels["judge"] == pytest.approx(0.3 - 0.6 + 0.3)
    assert (result.channels["judged_right"], result.channels["judged_wrong"]) == pytest.approx((0.6, -0.6))
    reranked = SearchEnv(tasks=source, mode=Judging(lambda text, gold: 0.8), scheme="reseek")
    assert play_episode(reranked, task, twice).channels["judge"] == pytest.approx(0.3 + 0.3 - 0.3)


def test_a_shown_answer_replaces_evidence_in_tasks_without_evidence(source: SearchTasks, tasks: list[Task]):
    [task, *_] = [task for task in tasks if task.gold["hop_count"] == 1 and not task.gold["unanswerable"]]
    env, hop = SearchEnv(tasks=source, results="passages"), search(task.gold["hops"][0]["query"])
    bare = Task("bare", "test", task.prompt, data=task.data, gold={**task.gold, "evidence": []})
    needless = Task("needless", "test", task.prompt, data=task.data, gold={**bare.gold, "needs_search": False})
    evidence = [
        play_episode(env, example, calls(first, SPOILED)).channels["evidence"]
        for example, first in ((bare, hop), (bare, search("zzz")), (needless, hop))
    ]
    assert evidence == [1.0, 0.0, 0.0]
