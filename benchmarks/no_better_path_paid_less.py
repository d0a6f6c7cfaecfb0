"""Pay of other ways to solve a task, compared with the environment's own solution.

Every way is either as good as the solution (shorter, other queries, the same fact from another page) and must be paid
at least as much, or worse (the solution after needless calls) and must not be paid more. A solution must also earn full
marks, whatever the task: the sum of all positive weights of the scheme. Ways that do not solve the task do not count.

    python -m benchmarks.no_better_path_paid_less [--tasks 12] [--only search sql]

Sites in a browser need Chromium; without it they are left out, and earlier rows for them are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from agentgym import make
from agentgym.check.play import CheckedEpisode, play, solving_player
from agentgym.core.env import Env
from agentgym.core.messages import Message, ToolCall, text_of
from agentgym.core.policy import Script, ScriptedPlayer, solution_player
from agentgym.core.rewards import SOLVED_AT
from agentgym.core.task import Task
from agentgym.envs.search import SearchEnv
from agentgym.envs.search.answers import mentions
from agentgym.envs.search.ledger import facts_of
from agentgym.tools.browser.pool import find_executable
from benchmarks._report import Claim, argument_parser, earlier, write

_ROUNDING = 1e-9

Player = Iterator[ToolCall]


def after(*calls: tuple[str, Mapping[str, Any]]) -> ScriptedPlayer:
    """Return the player that makes these calls and then plays the solution."""

    def player(env: Env, task: Task) -> Any:
        for name, arguments in calls:
            yield ToolCall(name, dict(arguments))
        yield from solving_player(env, task)

    return player


def without(*names: str) -> ScriptedPlayer:
    """Return the player of the solution without the calls of these tools."""

    def player(env: Env, task: Task) -> Any:
        script: Script[Any] = Script(env.solution(task))
        observation: list[Message] = []
        while (move := script.next_move(observation)) is not None:
            if not (isinstance(move, ToolCall) and move.name in names):
                observation = yield move

    return player


def guessed(env: Env, task: Task) -> Player:
    """Guess the number at once."""
    yield ToolCall("guess", {"number": task.gold["number"]})


def queried(write_answer: Callable[[str], str]) -> ScriptedPlayer:
    """Return the player that queries and submits another form of the gold query."""

    def player(env: Env, task: Task) -> Player:
        answer = write_answer(task.gold["sql"])
        yield ToolCall("query", {"sql": answer})
        yield ToolCall("submit", {"answer": answer})

    return player


def more_columns(env: Env, task: Task) -> Player:
    """Submit a right query that also reads the other columns of a table."""
    table = task.gold["tables"][0]
    rest = f"(SELECT COUNT(*) AS n FROM (SELECT DISTINCT * FROM {table}) AS every) AS counted WHERE n > 0"
    yield ToolCall("submit", {"answer": f"SELECT answer.* FROM ({task.gold['sql']}) AS answer, {rest}"})


def value_submitted(env: Env, task: Task) -> Any:
    """Query, and submit the value that was shown."""
    observation = yield ToolCall("query", {"sql": task.gold["sql"]})
    _, *rows, _ = text_of(observation[-1]).splitlines()
    if len(rows) == 1 and "|" not in rows[0]:
        yield ToolCall("submit", {"answer": f"'{rows[0]}'"})


def last_hop_only(env: Env, task: Task) -> Any:
    """Make only the last search of the solution, open its best hit, and answer if that page states the answer."""
    answers = task.gold["answers"]
    if not task.gold["hops"] or task.gold["hops"][-1]["answer"] not in answers or mentions(task.prompt, answers):
        return
    yield ToolCall("search", {"query": task.gold["hops"][-1]["query"]})
    observation = yield ToolCall("open", {"page": "1"})
    if mentions(text_of(observation[-1]), answers):
        yield ToolCall("answer", {"text": f"{answers[0]} [1]"})


def other_pages(env: Env, task: Task) -> Any:
    """Read the facts on pages that the gold does not name, where there are such pages, and cite what was read."""
    assert isinstance(env, SearchEnv)
    index = env.index
    facts = facts_of(task.gold, lambda page: index.open(page, (0, 0)).title)
    cited: list[str] = []
    gold_pages, hits_text = 0, ""
    read: set[str] = set()
    for fact in facts:
        hits = index.search(f"{fact.subject} {fact.values[0]}", 20)
        others = [hit for hit in hits if hit.id not in task.gold["evidence"]]
        stating = (hit.title for hit in others if fact.is_stated_in(f"{hit.title}: {index.open(hit.id).text}"))
        title = next(stating, None)
        gold_pages += title is None
        title = title or index.open(fact.page, (0, 0)).title
        if title in read:
            continue
        read.add(title)
        if f"] {title}: " not in hits_text:
            observation = yield ToolCall("search", {"query": title})
            hits_text += text_of(observation[-1])
        observation = yield ToolCall("open", {"page": title})
        cited.append(text_of(observation[-1]).partition("]")[0] + "]")
    if gold_pages < len(facts) and task.gold["answers"]:
        yield ToolCall("answer", {"text": f"{task.gold['answers'][0]} {' '.join(dict.fromkeys(cited))}"})


def submitted_at_once(env: Env, task: Task) -> Player:
    """Submit the answer without running anything."""
    yield ToolCall("submit", {"answer": task.gold.get("code") or task.gold["answer"]})


@dataclass(frozen=True)
class World:
    """An environment with ways to solve its tasks."""

    env: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    as_good: Mapping[str, ScriptedPlayer] = field(default_factory=dict)
    """Ways that must be paid at least as much as the solution."""
    worse: Mapping[str, ScriptedPlayer] = field(default_factory=dict)
    """Ways that must not be paid more."""
    share: float = 1.0
    """Share of the usual number of tasks, below 1 where grading is slow."""
    needs_browser: bool = False


SQL_WAYS: Mapping[str, ScriptedPlayer] = {
    "submitted at once": without("list_tables", "describe_table", "query"),
    "no look at tables": without("list_tables", "describe_table"),
    "nested query": queried(lambda sql: f"SELECT * FROM ({sql}) AS answer"),
    "common table expression": queried(lambda sql: f"WITH answer AS ({sql}) SELECT * FROM answer"),
    "query of more columns": more_columns,
    "value submitted": value_submitted,
}
SEARCH_WAYS: Mapping[str, ScriptedPlayer] = {
    "pages not opened": without("open"),
    "last search only": last_hop_only,
    "the same facts on other pages": other_pages,
}
_SCROLLED: Mapping[str, ScriptedPlayer] = {"scrolled first": after(("scroll", {"direction": "down"}))}

WORLDS: Mapping[str, World] = {
    "guess": World("guess", {}, {"guessed at once": guessed}, {"guess before": after(("guess", {"number": 1}))}),
    "errand": World(
        "errand",
        worse={"chat before": after(("chat", {})), "four chats before": after(*[("chat", {})] * 4)},
    ),
    "sql": World("sql", {}, SQL_WAYS, {"tables listed twice": after(("list_tables", {}))}),
    "sql sqlite": World("sql", {"engine": "sqlite", "show_schema": "prompt"}, SQL_WAYS),
    "search": World("search", {}, SEARCH_WAYS, {"needless search": after(("search", {"query": "zzz"}))}),
    "search passages": World("search", {"results": "passages"}, SEARCH_WAYS),
    "code": World(
        "code",
        {},
        {"submitted at once": submitted_at_once, "not tested": without("test")},
        {"needless output": after(("python", {"code": "print(1)"}))},
        0.5,
    ),
    "swe": World(
        "swe", {}, {"tests not run": without("run_tests")}, {"looked around": after(("list_files", {}))}, 0.25
    ),
    "web": World("web", {}, {}, _SCROLLED, needs_browser=True),
    "miniwob": World("miniwob-enter-text", {}, {}, _SCROLLED, 0.5, needs_browser=True),
}


def full_marks(env: Env) -> float:
    """Return the pay of an episode with all channels at their best, without the cost of its calls."""
    return sum(weight for name, weight in env.scheme.weights.items() if weight > 0 and env.channels[name].high == 1.0)


def cost(env: Env, episode: CheckedEpisode) -> float:
    """Return what channels with a negative weight took from the pay, as a positive number."""
    turns = env.scheme.contributions(episode.turns)
    return -sum(value for turn in turns for name, value in turn.items() if env.scheme.weights[name] < 0)


def rows_of(name: str, world: World, tasks: int) -> list[dict[str, Any]]:
    """Return a row for the solution and each other way, over the first test tasks of a world."""
    paid: dict[str, list[tuple[str, float, float]]] = {}
    short_of_full = 0.0
    with closing(make(world.env, **world.kwargs)) as env:
        for index in range(max(2, round(tasks * world.share))):
            task = env.tasks.get("test", index)
            solution = play(env, task, 0, solution_player)
            if solution.outcome < SOLVED_AT:
                continue
            short_of_full = max(short_of_full, full_marks(env) - cost(env, solution) - solution.reward)
            paid.setdefault("solution", []).append((task.id, solution.reward, solution.reward))
            for way, player in {**world.as_good, **world.worse}.items():
                episode = play(env, task, 0, player)
                if episode.outcome >= SOLVED_AT:
                    paid.setdefault(way, []).append((task.id, episode.reward, solution.reward))
    rows: list[dict[str, Any]] = []
    for way in ("solution", *world.as_good, *world.worse):
        sign = -1.0 if way in world.worse else 1.0
        gaps = [(round(sign * (full - own), 6), task_id) for task_id, own, full in paid.get(way, ())]
        worst, worst_task = max(gaps, default=(0.0, None))
        if way == "solution":
            worst = round(short_of_full, 6)
        rows.append(
            {
                "environment": name,
                "way": way,
                "kind": "solution" if way == "solution" else "worse" if way in world.worse else "as good",
                "tasks_solved": len(gaps),
                "paid": round(fmean([own for _, own, _ in paid[way]]), 4) if gaps else None,
                "solution_paid": round(fmean([full for _, _, full in paid[way]]), 4) if gaps else None,
                "worst_gap": max(0.0, worst),
                "worst_task": worst_task if worst > _ROUNDING else None,
            }
        )
    return rows


def claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """Return the claims that the rows support or refute."""

    def worst(kind: str) -> float:
        return max((row["worst_gap"] for row in rows if row["kind"] == kind), default=0.0)

    return [
        Claim("better_paths_paid_less_by", worst("as good"), "<=", 0),
        Claim("worse_paths_paid_more_by", worst("worse"), "<=", 0),
        Claim("solutions_short_of_full_marks_by", worst("solution"), "<=", 0),
        Claim("ways_played", sum(row["tasks_solved"] > 0 for row in rows), ">=", 20),
    ]


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=12, help="number of test tasks; fewer where grading is slow")
    parser.add_argument("--only", nargs="*", default=list(WORLDS), choices=list(WORLDS), metavar="ENVIRONMENT")
    options = parser.parse_args()
    has_browser = find_executable() is not None
    names = [name for name in options.only if has_browser or not WORLDS[name].needs_browser]
    rows = [row for row in earlier("no_better_path_paid_less")["rows"] if row["environment"] not in names]
    for name in names:
        played = rows_of(name, WORLDS[name], options.tasks)
        rows += played
        for row in played:
            print(row, file=sys.stderr)
    rows.sort(key=lambda row: list(WORLDS).index(row["environment"]))
    write("no_better_path_paid_less", rows, claims(rows))


if __name__ == "__main__":
    main()
