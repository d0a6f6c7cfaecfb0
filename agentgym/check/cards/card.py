"""`card`: the page about one environment. `overview`: the page about all of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.check.cards import play as conversation
from agentgym.check.cards.describing import Argument, arguments_of, common_arguments, sections_of, summary_of
from agentgym.check.cards.markdown import block, code, codes, folded, number, table
from agentgym.check.cards.play import SOLUTION, CardSubject, Score, scores, solved_episodes, test_tasks
from agentgym.check.constants import best_constant
from agentgym.check.play import CheckedEpisode
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.env import Env
from agentgym.core.rewards import Channel, Gate, Scheme
from agentgym.core.task import TaskSource
from agentgym.core.task_files import STRICT, STRICT_MEANS, TaskFiles
from agentgym.core.toolset import Tool, Toolset, schema_kind
from agentgym.procedural import ProceduralTasks

_ALWAYS = ("outcome", "d_ra")
_SCOPES = {"trajectory": "over the episode", "turn": "in the turn", "past": "in an earlier turn"}


def channels_table(env: Env) -> str:
    """Return a table of the channels: name, range, when they are earned, meaning."""
    rows = [(code(name), _range(channel), _when(channel), _meaning(channel)) for name, channel in env.channels.items()]
    return table(("channel", "range", "earned", "meaning"), rows)


def _range(channel: Channel) -> str:
    return f"{number(channel.low)} to {number(channel.high)}"


def _when(channel: Channel) -> str:
    return "each call" if channel.per_call else "each turn" if channel.per_turn else "once"


def _meaning(channel: Channel) -> str:
    return channel.description + ("; *cheap*: any legal action can earn it" if channel.cheap else "")


def named_schemes(env: Env) -> Mapping[str, Scheme]:
    """Return the environment's own schemes, the default first."""
    return {"default": env.scheme, **{n: s for n, s in type(env).schemes.items() if n not in (*_ALWAYS, "default")}}


def schemes_text(env: Env) -> str:
    """Return the weights of the channels in each scheme, and the gates."""
    schemes = named_schemes(env)
    rows = [
        (code(name), *(_weight(scheme, name) for scheme in schemes.values()))
        for name in env.channels
        if any(name in scheme.weights for scheme in schemes.values())
    ]
    gates = [text for name, scheme in schemes.items() if (text := _gates(name, scheme))]
    always = "Besides, `outcome` pays the outcome alone, and `d_ra` is the default without its gates."
    return "\n\n".join([table(("weight of", *map(code, schemes)), rows), *gates, always])


def _weight(scheme: Scheme, name: str) -> str:
    if name not in scheme.weights:
        return ""
    cap = scheme.capped.get(name)
    note = " × mean" if name in scheme.averaged else "" if cap is None else f", sum up to {number(cap)}"
    return number(scheme.weights[name], 3) + note + (", in full if solved" if name in scheme.in_full else "")


def _gates(name: str, scheme: Scheme) -> str:
    lines = [f"- {_gate(gate)}" for gate in scheme.gates]
    return "\n".join([f"Gates of {code(name)}, in this order:", "", *lines]) if lines else ""


def _gate(gate: Gate) -> str:
    sign = ">" if gate.strict else "≥"
    verb = "counts" if len(gate.opens) == 1 else "count"
    return f"{codes(gate.opens)} {verb} only if {code(gate.on)} {sign} {number(gate.at_least)} {_SCOPES[gate.scope]}"


@dataclass(frozen=True)
class Speed:
    """Medians, in milliseconds."""

    reset_ms: float
    step_ms: float
    machine: str = ""
    """Description of the machine."""


def read_speeds(path: Path) -> Mapping[str, Speed]:
    """Return the speeds in a file of results: `rows` with `environment`, `reset_ms` and `step_ms`, and `hardware`.

    Raises:
        UsageError: The file cannot be read or has the wrong format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        hardware = content.get("hardware", {})
        return {
            row["environment"]: Speed(float(row["reset_ms"]), float(row["step_ms"]), _machine(hardware, row))
            for row in content["rows"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"cannot read speeds from {str(path)!r}: {error!r}") from error


def _machine(hardware: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Return the processor, the number of cores, and their load from other work; empty if unknown."""
    if not hardware:
        return ""
    busy = row.get("load", 0.0) > hardware["cores"]
    shared = f", shared with other work (load {row['load']:.0f})" if busy else ""
    return f"{hardware['cores']} cores of {hardware['cpu']}{shared}"


_COUNTED = 100


def tasks_text(subject: CardSubject, env: Env) -> str:
    """Return the splits with their sizes, the levels, the members of a family, and the accepted files."""
    parts = [_splits(env.tasks), _levels(env)]
    if subject.is_family:
        parts.append(folded(f"The {len(subject.ids)} ids: {code(_pattern(subject))}", codes(subject.members)))
    if env.files is not None:
        parts.append(_files(env.files))
    return "\n\n".join(parts)


def _pattern(subject: CardSubject) -> str:
    return subject.ids[0].replace(subject.members[0], "…", 1)


def size_text(size: int | None) -> str:
    """Return a split's size for a table."""
    return "endless" if size is None else f"{size}"


def _splits(source: TaskSource) -> str:
    return table(("split", "tasks"), [(code(split), size_text(source.size(split))) for split in source.splits])


def _levels(env: Env) -> str:
    if isinstance(env.tasks, ProceduralTasks):
        return _families(env.tasks)
    tasks = test_tasks(env, _COUNTED)
    (level, first), *others = sorted(Counter(task.difficulty for task in tasks).items())
    beginning = f"the first {len(tasks)} tasks of {code(tasks[0].split)}"
    if not others:
        return f"All of {beginning} are of difficulty {level}."
    return f"Of {beginning}, {first} are of difficulty {level}{_other_levels(others)}."


def _other_levels(counts: Sequence[tuple[int, int]]) -> str:
    return "".join(f", {count} of {level}" for level, count in counts)


def _families(source: ProceduralTasks) -> str:
    """Return a table of the families by level."""
    by_level: dict[int, list[str]] = {}
    for family in source.families:
        by_level.setdefault(family.level, []).append(code(family.name) + ("*" if family.held_out else ""))
    rows = [(str(level), str(len(names)), ", ".join(names)) for level, names in sorted(by_level.items())]
    note = "\n\n\\* only in `test_unseen`" if any(family.held_out for family in source.families) else ""
    return table(("difficulty", "families", "names"), rows) + note


def _files(files: TaskFiles) -> str:
    layouts = [(layout.name, layout.looks, code(f"--set {layout.settings}")) for layout in files.layouts]
    options = [(code(name), meaning) for name, meaning in {**files.options, STRICT: STRICT_MEANS}.items()]
    intro = f"Tasks can also come from files ({code(f'{files.argument}=PATH')}):"
    return "\n\n".join([intro, table(("layout", "files", "settings"), layouts), table(("option", "meaning"), options)])


def tools_text(tools: Toolset) -> str:
    """Return each tool with its arguments, then all their JSON schemas."""
    if not len(tools):
        return "None: the model answers in plain text."
    schemas = block(json.dumps(tools.schemas, indent=1, ensure_ascii=False), "json")
    return "\n\n".join([*map(_tool, tools), folded("JSON schemas", schemas)])


def _tool(tool: Tool) -> str:
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    rows = [
        (code(name), _kind(schema), _default(schema, name in required), schema.get("description", ""))
        for name, schema in properties.items()
    ]
    parts = [f"### {code(tool.name)}", tool.description]
    return "\n\n".join([*parts, table(("argument", "type", "default", "meaning"), rows)] if rows else parts)


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    return schema_kind(schema)


def _default(schema: Mapping[str, Any], required: bool) -> str:
    if required:
        return "required"
    return code(json.dumps(schema["default"])) if schema.get("default") is not None else ""


EXAMPLE, SCORES = "## Example", "## Scores"
"""Sections that are left out if no task is played."""
_ELSEWHERE = ("Tools", "Reward", "Version history", "Args")
"""Sections of the docstring that the card shows in other places."""
_MAGNITUDES = {1: "less than 1 ms", 10: "some ms", 100: "tens of ms", 1000: "hundreds of ms"}
"""Maps upper bounds in ms to words; more precise numbers would describe the machine."""


def card(subject: CardSubject, *, played: int = 10, speed: Speed | None = None) -> str:
    """Return the card of an environment, in Markdown.

    The same environment gives the same card everywhere, unless the output of its tools depends on the machine.

    Args:
        subject: The environment.
        played: The number of tasks to play; with 0, the card has no example and no scores.
        speed: A speed measured before, if known.
    """
    env = subject.make()
    try:
        episodes = solved_episodes(env, played) if played else []
        return "\n\n".join(_parts(subject, env, episodes, speed)) + "\n"
    finally:
        env.close()


def _parts(subject: CardSubject, env: Env, episodes: Sequence[CheckedEpisode], speed: Speed | None) -> Iterator[str]:
    sections = sections_of(subject.kind)
    yield from (f"# {subject.name}", summary_of(subject.kind), _facts(subject, env, speed))
    yield from (f"**{title}:** {text}" for title, text in sections.items() if title not in _ELSEWHERE)
    if episodes:
        yield from (EXAMPLE, _example(episodes[0]))
    yield from ("## Tools", tools_text(env.tools))
    yield from ("## Rewards", sections.get("Reward", ""), channels_table(env), schemes_text(env))
    yield from ("## Tasks", tasks_text(subject, env))
    if episodes:
        yield from (SCORES, _scores(env, episodes))
    yield from ("## Arguments", _arguments(arguments_of(subject.kind)), _common())
    yield from ("## Version history", sections.get("Version history", "Not told."))


def _facts(subject: CardSubject, env: Env, speed: Speed | None) -> str:
    ids = f"{len(subject.ids)} ids, listed under Tasks" if subject.is_family else code(subject.ids[0])
    calls = "one call" if env.max_calls_per_turn == 1 else f"{env.max_calls_per_turn} calls"
    rows = [
        ("id", ids),
        ("class", code(subject.path)),
        ("turns", f"at most {env.max_turns}, with {calls} in each"),
        ("tools", codes(env.tools.names)),
    ]
    if env.max_concurrent is not None:
        rows.append(("at the same time", f"at most {env.max_concurrent} episodes in a process"))
    if speed is not None:
        rows.append(("speed", _speed(speed)))
    return table(("", ""), rows)


def _speed(speed: Speed) -> str:
    text = f"{_magnitude(speed.reset_ms)} for a reset, {_magnitude(speed.step_ms)} for a step"
    return f"{text}, on {speed.machine}" if speed.machine else text


def _magnitude(value: float) -> str:
    return next((words for limit, words in _MAGNITUDES.items() if value < limit), "seconds")


def _example(episode: CheckedEpisode) -> str:
    intro = f"Task {code(episode.task.id)}, difficulty {episode.task.difficulty}, played by the solution."
    return "\n\n".join([intro, conversation.opening(episode), conversation.turns(episode)])


def _scores(env: Env, episodes: Sequence[CheckedEpisode]) -> str:
    schemes = {**named_schemes(env), "d_ra": type(env).schemes["d_ra"]}
    rows = [
        (
            name,
            _solved(name, score),
            number(score.turns, 1),
            *(number(score.pay(scheme)) for scheme in schemes.values()),
        )
        for name, score in scores(env, episodes).items()
    ]
    intro = (
        f"The first {len(episodes)} tasks of {code(episodes[0].task.split)} that have a solution: how many each player "
        "solves, in how many turns, and what each scheme pays on average. `d_ra` shows what it would be without gates. "
        "Where one call solves a task, so does repeating it."
    )
    players = table(("player", "solved", "turns", *map(code, schemes)), rows)
    return "\n\n".join([intro, players, _baseline(env, episodes)])


def _baseline(env: Env, episodes: Sequence[CheckedEpisode]) -> str:
    best = best_constant(env, episodes, math.inf)
    if best is None:
        return "No single action could be tried on all tasks."
    if best.solved == 0:
        return "Baseline: no single action that was tried solves any of these tasks."
    return f"Baseline, the best single action: {code(best.action)} solves {best.solved} of {best.tasks} tasks."


def _solved(name: str, score: Score) -> str:
    """Return how many tasks a player solves, with the reasons for failures of the solution."""
    return f"{score.solved} ({score.unsolved})" if name == SOLUTION and score.unsolved else score.solved


def _arguments(arguments: Sequence[Argument]) -> str:
    if not arguments:
        return "None of its own."
    rows = [
        (code(argument.name), code(argument.default) if argument.default else "", argument.meaning)
        for argument in arguments
    ]
    return table(("argument", "default", "meaning"), rows)


def _common() -> str:
    return f"Every environment also takes {codes(EnvArguments.__annotations__)}."


_OVERVIEW = "# Environments"


def is_card(path: Path) -> bool:
    """Whether a file is a card or the overview of cards."""
    text = path.read_text(encoding="utf-8", errors="replace")
    is_overview = text.startswith(f"{_OVERVIEW}\n") and "agentgym cards" in text
    return is_overview or (text.startswith("# ") and "\n| class | `" in text and "\n## Version history\n" in text)


def overview(subjects: Sequence[CardSubject], speeds: Mapping[str, Speed]) -> str:
    """Return a table of environments with links to their cards, and the arguments that all of them take."""
    columns = ("environment", "about", "test tasks", *(("a step takes",) if speeds else ()))
    rows = [_row(subject, speeds)[: len(columns)] for subject in subjects]
    intro = (
        "One card for each: the task, an example, tools, rewards, tasks, scores of its solution and of players that do "
        "no work, arguments. `agentgym cards` writes them from the classes; for one of your own: "
        "`agentgym cards module:Class`. How fast one is on a machine: `agentgym check sql --only latency`."
    )
    arguments = _arguments([argument for argument in common_arguments() if argument.meaning])
    return "\n\n".join([_OVERVIEW, intro, table(columns, rows), "## Arguments of every environment", arguments, ""])


def _row(subject: CardSubject, speeds: Mapping[str, Speed]) -> tuple[str, ...]:
    name = f"[{code(subject.name)}]({subject.name}.md)"
    return name, summary_of(subject.kind), _tasks_in_brief(subject), _step(speeds, subject)


def _tasks_in_brief(subject: CardSubject) -> str:
    env = subject.make()
    try:
        return size_text(env.tasks.size("test")) if "test" in env.tasks.splits else "none"
    finally:
        env.close()


def _step(speeds: Mapping[str, Speed], subject: CardSubject) -> str:
    return _magnitude(speeds[subject.name].step_ms) if subject.name in speeds else ""
