"""The pay of policies that do nothing useful in `search`, by every scheme and rule, compared with an honest failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from agentgym.env import Env
from agentgym.envs.search import Judging, SearchEnv
from agentgym.envs.search.schemes import SCHEMES
from agentgym.messages import ToolCall, text_of
from agentgym.task import Task
from agentgym.tasks.search import SearchTasks
from tests.played import Moves, Play, calls, failing_honestly, played
from tests.refusals import sampled

SPOILED = ToolCall("answer", {"text": "spoiled"})
MODES: dict[str, dict[str, Any]] = {"reseek": {"mode": "reseek"}, "adasearch": {"mode": "adasearch"}}
"""The modes that schemes are made for."""


def search(query: str) -> ToolCall:
    return ToolCall("search", {"query": query})


def judge(useful: bool) -> ToolCall:
    return ToolCall("judge", {"useful": useful})


def decide(way: str) -> ToolCall:
    return ToolCall("decide", {"way": way})


def junk_searches(count: int, *, judged: bool) -> list[ToolCall]:
    return [call for number in range(count) for call in (search(f"zzz {number}"), judge(judged))]


def searching_for_the_question(env: Env) -> Moves:
    if "decide" in env.tools.names:
        yield decide("search")
    yield search(env.task.prompt)
    if "judge" in env.tools.names:
        yield judge(True)
    yield ToolCall("answer", {"text": "spoiled [1] [2]"})


def repeating_the_question(env: Env) -> Moves:
    if "decide" in env.tools.names:
        yield decide("search")
    for _ in range(env.max_turns):
        yield search(env.task.prompt)


def naming_the_names(env: Env) -> Moves:
    yield ToolCall("answer", {"text": ", ".join(env.task.data["named"])})


NOTHING_USEFUL: dict[str, Play] = {
    "nothing": calls(),
    "junk at once": calls(SPOILED),
    "junk with citations": calls(ToolCall("answer", {"text": "spoiled [1] [2]"})),
    "search, then junk": calls(search("zzz"), SPOILED),
    "search for the question, then junk": searching_for_the_question,
    "one search over and over": calls(*[search("zzz")] * 40),
    "the question over and over": repeating_the_question,
    "other searches to the end": calls(*[search(f"zzz {n}") for n in range(40)]),
    "words of the question": naming_the_names,
    "decide to search, then junk": calls(decide("search"), SPOILED),
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
def test_nothing_useful_is_never_paid_more_than_an_honest_failure(
    scheme: str, count: int, source: SearchTasks, tasks: list[Task]
):
    for style in ("short", "full") if scheme == "default" else ("full",):
        env = SearchEnv(tasks=source, scheme=scheme, solution_style=cast(Any, style), **MODES.get(scheme, {}))
        honest = {task.id: played(env, task, failing_honestly(SPOILED)).paid for task in tasks[:count]}
        for name, play in NOTHING_USEFUL.items():
            for task in tasks[:count]:
                result = played(env, task, play)
                assert not result.solved
                assert result.paid <= honest[task.id] + 1e-9, (name, task)
                if name in ("nothing", "junk at once", "junk with citations", "words of the question"):
                    assert result.paid <= 0.0, (name, task)
        assert sum(honest.values()) / len(honest) > 0.05


@pytest.mark.parametrize("scheme", ["default", "outcome", *SCHEMES])
def test_every_scheme_pays_a_solved_task_more_than_any_failure(scheme: str, source: SearchTasks, tasks: list[Task]):
    env = SearchEnv(tasks=source, scheme=scheme, **MODES.get(scheme, {}))
    for task in tasks[:20]:
        result = played(env, task, lambda env: env.solution(env.task))
        assert result.solved
        assert result.paid > played(env, task, failing_honestly(SPOILED)).paid + 0.5


def pasting_hits(env: Env) -> Moves:
    output = yield search(env.task.prompt)
    yield ToolCall("answer", {"text": "\n".join(map(text_of, output))})


def pasting_a_page(env: Env) -> Moves:
    yield search(env.task.prompt)
    output = yield ToolCall("open", {"page": "1"})
    yield ToolCall("answer", {"text": "\n".join(map(text_of, output))})


def listing_the_names(env: Env) -> Moves:
    yield ToolCall("answer", {"text": " or ".join(env.task.data["named"])})


def repeating_the_question_as_answer(env: Env) -> Moves:
    yield ToolCall("answer", {"text": env.task.prompt})


def denying_the_gold(env: Env) -> Moves:
    yield ToolCall("answer", {"text": f"not {(env.task.gold['answers'] or ['x'])[0]}"})


WITHOUT_KNOWING: dict[str, Play] = {
    "hits": pasting_hits,
    "a page": pasting_a_page,
    "names of the question": naming_the_names,
    "alternatives": listing_the_names,
    "the question": repeating_the_question_as_answer,
    "numbers": calls(ToolCall("answer", {"text": " ".join(map(str, range(300)))})),
    "yes and no": calls(ToolCall("answer", {"text": "yes no"})),
    "everything": calls(ToolCall("answer", {"text": "unknown, yes, no, 1, 2, 3"})),
    "denial": denying_the_gold,
}


@sampled(12, 60)
def test_no_rule_accepts_an_answer_that_commits_itself_to_nothing(count: int, source: SearchTasks, tasks: list[Task]):
    for rule in ("em", "f1", "contains"):
        env = SearchEnv(tasks=source, solved=cast(Any, rule))
        for name, play in WITHOUT_KNOWING.items():
            assert not [task.prompt for task in tasks[:count] if played(env, task, play).solved], (rule, name)


def test_a_repeated_search_brings_nothing_new_and_a_reranker_may_judge_instead(source: SearchTasks, tasks: list[Task]):
    [task, *_] = [task for task in tasks if task.gold["hop_count"] == 1]
    again = search(task.gold["hops"][0]["query"])
    twice = calls(again, judge(True), again, judge(True), again, judge(False))
    env = SearchEnv(tasks=source, mode="reseek", scheme="reseek")
    result = played(env, task, twice)
    assert result.channels["judge"] == pytest.approx(0.3 - 0.6 + 0.3)
    assert (result.channels["judged_right"], result.channels["judged_wrong"]) == pytest.approx((0.6, -0.6))
    reranked = SearchEnv(tasks=source, mode=Judging(lambda text, gold: 0.8), scheme="reseek")
    assert played(reranked, task, twice).channels["judge"] == pytest.approx(0.3 + 0.3 - 0.3)


def test_a_shown_answer_stands_for_evidence_where_a_task_names_none(source: SearchTasks, tasks: list[Task]):
    [task, *_] = [task for task in tasks if task.gold["hop_count"] == 1 and not task.gold["unanswerable"]]
    env, hop = SearchEnv(tasks=source, results="passages"), search(task.gold["hops"][0]["query"])
    bare = Task("bare", "test", task.prompt, data=task.data, gold={**task.gold, "evidence": []})
    needless = Task("needless", "test", task.prompt, data=task.data, gold={**bare.gold, "needs_search": False})
    evidence = [
        played(env, example, calls(first, SPOILED)).channels["evidence"]
        for example, first in ((bare, hop), (bare, search("zzz")), (needless, hop))
    ]
    assert evidence == [1.0, 0.0, 0.0]
