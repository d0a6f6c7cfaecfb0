"""`card`: the page about one environment. `overview`: the page about all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentgym.cards import conversation
from agentgym.cards.describing import Argument, arguments_of, common_arguments, sections_of, summary_of
from agentgym.cards.markdown import code, codes, number, table
from agentgym.cards.playing import SOLUTION, Score, scores, solved_episodes
from agentgym.cards.rewards import channels_table, named_schemes, schemes_text
from agentgym.cards.speeds import Speed
from agentgym.cards.subject import CardSubject
from agentgym.cards.tasks import size_text, tasks_text
from agentgym.cards.tools import tools_text
from agentgym.checks.play import RecordedEpisode
from agentgym.engine.authoring import EnvArguments
from agentgym.env import Env

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


def _parts(subject: CardSubject, env: Env, episodes: Sequence[RecordedEpisode], speed: Speed | None) -> Iterator[str]:
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


def _example(episode: RecordedEpisode) -> str:
    intro = f"Task {code(episode.task.id)}, difficulty {episode.task.difficulty}, played by the solution."
    return "\n\n".join([intro, conversation.opening(episode), conversation.turns(episode)])


def _scores(env: Env, episodes: Sequence[RecordedEpisode]) -> str:
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
    return "\n\n".join([intro, table(("player", "solved", "turns", *map(code, schemes)), rows)])


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
    return "\n\n".join(
        ["# Environments", intro, table(columns, rows), "## Arguments of every environment", arguments, ""]
    )


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
