"""What policies that do nothing useful are paid in `search`, by every scheme and rule, beside an honest failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest

from agentgym.env import Env
from agentgym.envs.search import Judging, SearchEnv
from agentgym.envs.search.judging import Judge
from agentgym.envs.search.schemes import SCHEMES
from agentgym.messages import ToolCall, text_of
from agentgym.rewards import OUTCOME, Gate
from agentgym.script import Script
from agentgym.task import Task
from agentgym.tasks.search import SearchTasks
from tests.played import Moves, Play, calls, failing_honestly, played

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


def naming_what_is_asked(env: Env) -> Moves:
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
    "words of the question": naming_what_is_asked,
    "decide to search, then junk": calls(decide("search"), SPOILED),
    "decide that one knows, then junk": calls(decide("know"), SPOILED),
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


@pytest.mark.parametrize(
    ("scheme", "style"), [("default", "short"), *((name, "full") for name in ("default", *SCHEMES))]
)
def test_nothing_useful_is_never_paid_more_than_an_honest_failure(
    scheme: str, style: str, source: SearchTasks, tasks: list[Task]
):
    env = SearchEnv(tasks=source, scheme=scheme, solution_style=cast(Any, style), **MODES.get(scheme, {}))
    honest = {task.id: played(env, task, failing_honestly(SPOILED)).paid for task in tasks[:25]}
    for name, play in NOTHING_USEFUL.items():
        for task in tasks[:25]:
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
    shown = yield search(env.task.prompt)
    yield ToolCall("answer", {"text": "\n".join(map(text_of, shown))})


def pasting_a_page(env: Env) -> Moves:
    yield search(env.task.prompt)
    shown = yield ToolCall("open", {"page": "1"})
    yield ToolCall("answer", {"text": "\n".join(map(text_of, shown))})


def listing_what_is_asked(env: Env) -> Moves:
    yield ToolCall("answer", {"text": " or ".join(env.task.data["named"])})


def repeating_the_question_as_answer(env: Env) -> Moves:
    yield ToolCall("answer", {"text": env.task.prompt})


def denying_the_gold(env: Env) -> Moves:
    yield ToolCall("answer", {"text": f"not {(env.task.gold['answers'] or ['x'])[0]}"})


WITHOUT_KNOWING: dict[str, Play] = {
    "hits": pasting_hits,
    "a page": pasting_a_page,
    "names of the question": naming_what_is_asked,
    "alternatives": listing_what_is_asked,
    "the question": repeating_the_question_as_answer,
    "numbers": calls(ToolCall("answer", {"text": " ".join(map(str, range(300)))})),
    "yes and no": calls(ToolCall("answer", {"text": "yes no"})),
    "everything": calls(ToolCall("answer", {"text": "unknown, yes, no, 1, 2, 3"})),
    "denial": denying_the_gold,
}


@pytest.mark.parametrize("rule", ["em", "f1", "contains"])
def test_no_rule_takes_an_answer_for_right_that_does_not_say_which_it_is(
    rule: str, source: SearchTasks, tasks: list[Task]
):
    env = SearchEnv(tasks=source, solved=cast(Any, rule))
    for name, play in WITHOUT_KNOWING.items():
        assert not [task.prompt for task in tasks if played(env, task, play).solved], name


def test_sentences_that_give_the_answer_contain_it(source: SearchTasks, tasks: list[Task]):
    env = SearchEnv(tasks=source, solved="contains")

    def in_a_sentence(env: Env) -> Moves:
        yield ToolCall("answer", {"text": f"I believe that the answer is {env.task.gold['answers'][0]}."})

    answerable = [task for task in tasks if not task.gold["unanswerable"]]
    assert all(played(env, task, in_a_sentence).solved for task in answerable)


@pytest.mark.parametrize("mode", [{}, {"results": "passages", "pages": False}])
def test_gold_searches_are_useful_however_many_hops_a_question_has(
    mode: dict[str, Any], source: SearchTasks, tasks: list[Task]
):
    """The solution judges by the pages that it looks for: a judge that knows nothing else would differ from it."""
    env = SearchEnv(tasks=source, mode="reseek", scheme="reseek", **mode)
    verdicts, useful, agreed = Counter[int](), Counter[int](), 0
    for task in tasks:
        moves = env.solution(task)
        env.reset(seed=0, options={"task": task})

        def noting(env: Env, moves: Any = moves, hops: int = task.gold["hop_count"]) -> Moves:
            nonlocal agreed
            script = Script(moves)
            call = script.next_move([])
            while isinstance(call, ToolCall):
                if call.name == "judge":
                    verdicts[hops] += 1
                    helped = cast(SearchEnv, env).part(Judge).useful
                    agreed += call.arguments["useful"] == helped
                    useful[hops] += helped
                call = script.next_move((yield call))

        played(env, task, noting)
    assert {1, 2, 3, 4, 6} <= set(verdicts)
    assert all(useful[hops] >= 0.85 * verdicts[hops] for hops in verdicts if verdicts[hops] >= 10), (useful, verdicts)
    assert useful.total() >= 0.95 * verdicts.total()
    assert agreed == verdicts.total()


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


def test_where_a_task_names_no_evidence_a_shown_answer_is(source: SearchTasks, tasks: list[Task]):
    [task, *_] = [task for task in tasks if task.gold["hop_count"] == 1 and not task.gold["unanswerable"]]
    bare = Task("bare", "test", task.prompt, data=task.data, gold={**task.gold, "evidence": []})
    env = SearchEnv(tasks=source, results="passages")
    found = played(env, bare, calls(search(task.gold["hops"][0]["query"]), SPOILED))
    assert found.channels["evidence"] == 1.0
    assert played(env, bare, calls(search("zzz"), SPOILED)).channels["evidence"] == 0.0
    given = Task("given", "test", task.prompt, data=task.data, gold={**bare.gold, "needs_search": False})
    assert played(env, given, calls(search(task.gold["hops"][0]["query"]), SPOILED)).channels["evidence"] == 0.0


def test_the_published_values_stand_behind_evidence():
    for name, cheap in {"search-r1": "tier", "reseek": "judged_right", "adasearch": "rightly_searched"}.items():
        gate = Gate(on="evidence", at_least=0.0, strict=True, opens=(cheap,))
        assert gate in SCHEMES[name].gates
        assert SearchEnv.channels[cheap].cheap
    assert SCHEMES["adasearch"].weights[OUTCOME] == 1.0
