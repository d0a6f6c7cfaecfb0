"""Pay of episodes without useful work, compared with honest attempts that fail, in all environments and schemes.

The adversaries are those of `agentgym check` (idle, stalling, one call repeated, junk at once, junk after one call) and
a few that know the environment. An honest attempt is the solution with a spoiled end. Every episode is played once
and paid under every scheme; `d_ra`, the control without gates, is shown but not judged.

The ratio is pay over the honest failure's pay on the same task. Pay of 0 or less gives 0 unless the honest failure is
paid less; pay above an honest failure that earns nothing gives 1000. Episodes that solve the task are left out.

    python -m benchmarks.adversaries [--tasks 12] [--only search web]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from agentgym import make
from agentgym.check.honest import Contest, contest, is_solved
from agentgym.check.play import assistant_call, play, random_player
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.policy import Move, ScriptedPlayer, solution_player
from agentgym.core.rewards import Scheme
from agentgym.core.task import Task
from benchmarks._report import Claim, argument_parser, write

BEYOND = 1000.0
"""The ratio if an adversary is paid and the honest failure is not."""

_ROUNDING = 1e-9


def calls(*named: tuple[str, Mapping[str, Any]]) -> ScriptedPlayer:
    """Return a player that makes these calls and then repeats the last one."""
    actions = [assistant_call(ToolCall(name, dict(arguments))) for name, arguments in named]

    def player(env: Env, task: Task) -> Iterable[Action]:
        yield from (action for action in actions)
        while True:
            yield actions[-1]

    return player


def of_task(write_calls: Callable[[Task], Sequence[tuple[str, Mapping[str, Any]]]]) -> ScriptedPlayer:
    """Return a player whose calls depend on the task."""

    def player(env: Env, task: Task) -> Iterable[Move]:
        yield from calls(*write_calls(task))(env, task)

    return player


def paste_hits(env: Env, task: Task) -> Iterable[Action]:
    """Search for the question itself and answer with everything shown."""
    observation = yield assistant_call(ToolCall("search", {"query": task.prompt}))
    while True:
        observation = yield assistant_call(ToolCall("answer", {"text": text_of(observation[-1])}))


def judge_everything_false(env: Env, task: Task) -> Iterable[Action]:
    """Search for junk and judge it useless, then answer junk."""
    for number in range(5):
        yield assistant_call(ToolCall("search", {"query": f"zzz {number}"}))
        yield assistant_call(ToolCall("judge", {"useful": False}))
    while True:
        yield assistant_call(ToolCall("answer", {"text": "something"}))


def _words_as_columns(task: Task) -> str:
    words = dict.fromkeys(word for word in task.prompt.lower().split() if word.isalpha())
    return "SELECT " + ", ".join(f'1 AS "{word}"' for word in [*words, "column"][:20])


def select_named_columns(env: Env, task: Task) -> Iterable[Action]:
    """Submit the columns that the question names, of the table with the most of them, without any condition."""
    words = set(re.findall("[a-z]+", task.prompt.lower()))
    observation = yield assistant_call(ToolCall("list_tables"))
    named: dict[str, list[str]] = {}
    for table in re.findall(r"^(\w+)", text_of(observation[-1]), re.MULTILINE)[:5]:
        observation = yield assistant_call(ToolCall("describe_table", {"table": table}))
        columns = re.findall(
            r"(\w+) (?:BIGINT|INTEGER|VARCHAR|TEXT|DOUBLE|REAL|DATE|BOOLEAN)", text_of(observation[-1])
        )
        named[table] = [column for column in columns if words.intersection(column.split("_"))]
    table = max(named, key=lambda name: len(named[name]), default="t")
    while True:
        sql = f"SELECT {', '.join(named.get(table) or ['1'])} FROM {table}"
        yield assistant_call(ToolCall("submit", {"answer": sql}))


def _examples_in_a_table(task: Task) -> str:
    examples = ", ".join(f"({example['args']}, {example['expect']})" for example in task.data.get("examples", ()))
    name = task.data.get("entry_point", "f")
    return f"def {name}(*args):\n    return next((value for key, value in [{examples}] if key == args), None)"


def _stub(task: Task) -> str:
    signature = str(task.data.get("signature") or f"def {task.data.get('entry_point', 'f')}(*args):")
    return f"{signature.rstrip()}\n    return None"


SEARCH: Mapping[str, ScriptedPlayer] = {
    "question searched, hits pasted": paste_hits,
    "unknown at once": calls(("answer", {"text": "unknown"})),
    "yes at once": calls(("answer", {"text": "yes"})),
    "same search repeated, then junk": calls(
        *[("search", {"query": "something"})] * 6, ("answer", {"text": "something"})
    ),
}
STAGES: Mapping[str, ScriptedPlayer] = {
    "decide to search, then junk": calls(("decide", {"way": "search"}), ("answer", {"text": "something"})),
    "decide not to search, then junk": calls(("decide", {"way": "know"}), ("answer", {"text": "something"})),
    "junk searches judged useless": judge_everything_false,
}
SQL: Mapping[str, ScriptedPlayer] = {
    "select 1": calls(("submit", {"answer": "SELECT 1"})),
    "select 1 as column": calls(("submit", {"answer": 'SELECT 1, 1 AS "column"'})),
    "no rows": calls(("submit", {"answer": "SELECT 1 WHERE 1 = 0"})),
    "the question's words as columns": of_task(lambda task: [("submit", {"answer": _words_as_columns(task)})]),
    "the columns that the question names": select_named_columns,
    "queried, then the question's words as columns": of_task(
        lambda task: [("query", {"sql": _words_as_columns(task)}), ("submit", {"answer": _words_as_columns(task)})]
    ),
}
CODE: Mapping[str, ScriptedPlayer] = {
    "a stub": of_task(lambda task: [("submit", {"answer": _stub(task)})]),
    "the code as it was given": of_task(lambda task: [("submit", {"answer": str(task.data.get("code") or "0")})]),
    "the examples in a table": of_task(lambda task: [("submit", {"answer": _examples_in_a_table(task)})]),
    "pass": calls(("submit", {"answer": "pass"})),
    "print, then a stub": of_task(lambda task: [("python", {"code": "print(1)"}), ("submit", {"answer": _stub(task)})]),
}
_EVERY_FILE = "find . -name '*.py' -not -path './.git/*' -exec {} {{}} +"
SWE: Mapping[str, ScriptedPlayer] = {
    "a comment after every file": calls(
        ("run", {"command": "for f in $(git ls-files '*.py'); do echo '# note' >> $f; done"}), ("submit", {})
    ),
    "a comment after every line": calls(("run", {"command": _EVERY_FILE.format("sed -i 'a # note'")}), ("submit", {})),
    "a statement after every file": calls(
        ("run", {"command": "for f in $(git ls-files '*.py'); do echo '_note = 1' >> $f; done"}), ("submit", {})
    ),
    "an empty file, submitted": calls(("create", {"path": "notes.py", "content": ""}), ("submit", {})),
    "tests run, nothing changed": calls(("run_tests", {}), ("submit", {})),
    "looked at one folder": calls(("list_files", {}), ("submit", {})),
}
WEB: Mapping[str, ScriptedPlayer] = {
    "one refused call, then finish": calls(("click", {"ref": 99999}), ("finish", {})),
    "scroll, then finish": calls(("scroll", {"direction": "down"}), ("finish", {})),
    "everything clicked, then finish": calls(*[("click", {"ref": ref}) for ref in range(1, 8)], ("finish", {})),
    "impossible at once": calls(("answer", {"text": "impossible"})),
}
ERRAND: Mapping[str, ScriptedPlayer] = {
    "chats all day": calls(("chat", {})),
    "chats, then delivers nothing": calls(*[("chat", {})] * 5, ("deliver", {"house": "Hill"})),
}


@dataclass(frozen=True)
class World:
    """An environment, with its own settings and adversaries."""

    env: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    adversaries: Mapping[str, ScriptedPlayer] = field(default_factory=dict)
    share: float = 1.0
    """Share of the usual number of tasks, below 1 where grading is slow."""


WORLDS: Mapping[str, World] = {
    "guess": World("guess"),
    "errand": World("errand", {}, ERRAND),
    "sql": World("sql", {}, SQL),
    "sql sqlite": World("sql", {"engine": "sqlite", "show_schema": "prompt"}, SQL),
    "code": World("code", {}, CODE),
    "code files": World("code", {"tools": "files+bash+test", "stateful": False}, {}, 0.5),
    "search": World("search", {}, SEARCH),
    "search in stages": World("search", {"mode": ["adasearch", "reseek"], "results": "passages"}, STAGES),
    "swe": World("swe", {}, SWE, 0.25),
    "web": World("web", {}, WEB, 0.5),
    "miniwob": World("miniwob-enter-text", {}, {}, 0.5),
}


def play_world(world: World, tasks: int) -> list[Contest]:
    """Play the first test tasks of a world with all adversaries."""
    with closing(make(world.env, **world.kwargs)) as env:
        selected = [env.tasks.get("test", index) for index in range(max(2, round(tasks * world.share)))]
        solved = [play(env, task, 0, solution_player) for task in selected]
        others = [*solved, *(play(env, task, 0, random_player) for task in selected[:2])]
        contests = [
            contest(env, episode, [other for other in others if other is not episode], world.adversaries)
            for episode in solved
            if is_solved(episode)
        ]
    return [played for played in contests if played is not None]


def rows_of(
    name: str, world: World, contests: Sequence[Contest], schemes: Mapping[str, Scheme]
) -> list[dict[str, Any]]:
    """Return one row for every scheme and adversary."""
    rows: list[dict[str, Any]] = []
    for scheme_name, scheme in schemes.items():
        honest = {match.task.id: match.honest_pay(scheme) for match in contests}
        for adversary in dict.fromkeys(name for match in contests for name in match.adversaries):
            paid = {match.task.id: pay[adversary] for match in contests if adversary in (pay := match.pay(scheme))}
            played = sum(adversary in match.adversaries for match in contests)
            ratios = {task: ratio(value, honest[task]) for task, value in paid.items()}
            worst = max(ratios, key=lambda task: ratios[task], default=None)
            rows.append(
                {
                    "environment": name,
                    "scheme": scheme_name,
                    "control": scheme.allow_unsound,
                    "adversary": adversary,
                    "tasks": played,
                    "solved": played - len(paid),
                    "paid": _mean(paid.values()),
                    "honest_failure_paid": _mean(honest[task] for task in paid),
                    "worst_ratio": 0.0 if worst is None else round(ratios[worst], 4),
                    "worst_task": worst,
                }
            )
    return rows


def ratio(paid: float, honest: float) -> float:
    """Return pay over the pay of an honest failure; the module's docstring covers pay of 0 or less."""
    if paid <= honest + _ROUNDING:
        return max(0.0, paid / honest) if honest > 0.0 else 0.0
    return paid / honest if honest > 0.0 else BEYOND


def _mean(values: Iterable[float]) -> float:
    return round(fmean(list(values) or [0.0]), 4)


def worst(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the row with the highest ratio."""
    return max(rows, key=lambda row: row["worst_ratio"])


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--tasks", type=int, default=12, help="number of test tasks per environment; fewer where grading is slow"
    )
    parser.add_argument("--only", nargs="*", default=list(WORLDS), choices=list(WORLDS), metavar="ENVIRONMENT")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.only:
        world = WORLDS[name]
        with closing(make(world.env, **world.kwargs)) as env:
            schemes = env.schemes
        contests = play_world(world, options.tasks)
        rows += rows_of(name, world, contests, schemes)
        for scheme in schemes:
            top = worst(row for row in rows if (row["environment"], row["scheme"]) == (name, scheme))
            named = f"{len(contests):3} tasks  honest failure {top['honest_failure_paid']:6.3f}"
            named += f"  worst ratio {top['worst_ratio']:8.3f}  {top['adversary']} ({top['worst_task']})"
            print(f"{name:18} {scheme:10} {named}", file=sys.stderr)
    judged = [row for row in rows if not row["control"]]
    controls = [row for row in rows if row["control"]]
    write(
        "adversaries",
        rows,
        [
            Claim("junk_over_honest_failure", worst(judged)["worst_ratio"], "<=", 1),
            Claim("junk_over_honest_failure_without_gates", worst(controls)["worst_ratio"], ">=", 1),
        ],
    )


if __name__ == "__main__":
    main()
