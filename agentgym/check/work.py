"""Checks that the outcome rewards the task's own work: not just ending it, nor other work, nor part of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter

from agentgym.check.adversaries import action_text, calls_in, ending_tools
from agentgym.check.catalog import check
from agentgym.check.grading import RANDOM_LIMIT
from agentgym.check.honest import Slip, is_solved, spoiled_action, to_the_end
from agentgym.check.outcomes import CheckFailed, CheckSkipped, Finding, Patience
from agentgym.check.play import Broken, CheckedEpisode, assistant_call, canonical, play, then_silence
from agentgym.check.subject import Stumbled, Subject
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.policy import ScriptedPlayer

_FEWEST_TASKS = 3
"""Minimum sample: with fewer tasks, wrong work may be right by coincidence."""

_ENOUGH_TASKS = 12
"""If this many solutions end alike, they do not merely share an answer by coincidence."""

_SECONDS = 2.0
"""Time budget in seconds for examining omissions."""

_WRONG_ANSWERS = 2
"""Number of wrong answers that show whether an answer is graded."""

_MOST_READS = 8
"""Maximum number of calls tried to detect what an action changed."""


@check("ending-alone-fails", "ending an episode without doing its task solves nothing")
def ending_alone_fails(subject: Subject) -> Finding:
    """The last action of a solution, played alone, rarely solves a task.

    If last actions differ, the last action of another task is played, because the task's own may contain the answer.
    """
    solutions = _long_solutions(subject)
    played: list[CheckedEpisode] = []
    with subject.env() as env:
        same = not any(_ends_differently(solution, solutions[0]) for solution in solutions)
        if same and _may_hold_an_answer(env, solutions[0].actions[-1]):
            more = subject.more_episodes("solution", _ENOUGH_TASKS)
            if any(_ends_differently(solution, solutions[0]) for solution in more):
                raise CheckSkipped("too many solutions end with the same answer")
        for episode in _spread(solutions):
            ending = episode.actions[-1] if same else _other(episode, solutions).actions[-1]
            played.append(play(env, episode.task, episode.seed, to_the_end([ending])))
        ending_text = action_text(env, played[0].actions[0])
    solved = [episode for episode in played if is_solved(episode)]
    if len(solved) > RANDOM_LIMIT * len(played):
        raise CheckFailed(
            f"{ending_text} alone, without any of the work, solved {len(solved)} of {len(played)} tasks, e.g. "
            f"{solved[0].task.id!r}; pay the outcome for what was done, not for ending the episode"
        )
    return f"solved {len(solved)} of {len(played)} tasks"


@check("other-solution-fails", "the solution of one task does not solve others", causes=("ending-alone-fails",))
def other_solution_fails(subject: Subject) -> Finding:
    """The actions of another task's solution rarely solve a task."""
    solutions = _long_solutions(subject)
    if len({canonical(episode.actions) for episode in solutions}) == 1:
        raise CheckSkipped("all solutions are the same actions")
    played: list[CheckedEpisode] = []
    with subject.env() as env:
        for episode in _spread(solutions):
            other = _other(episode, solutions)
            played.append(play(env, episode.task, episode.seed, to_the_end(other.actions)))
    solved = [episode for episode in played if is_solved(episode)]
    if len(solved) > RANDOM_LIMIT * len(played):
        raise CheckFailed(
            f"the solution of another task solved {len(solved)} of {len(played)} tasks, e.g. {solved[0].task.id!r}; "
            "compare what was done with the task's own gold"
        )
    return f"solved {len(solved)} of {len(played)} tasks"


@check("unfinished-fails", "a solution without its last action does not succeed if that action is the answer")
def unfinished_fails(subject: Subject) -> Finding:
    """Neither silence nor more reading in place of a solution's answer solves a task, however much was read before.

    The last action is an answer if changing it keeps the task from being solved.
    """
    pairs = zip(subject.episodes("solution"), subject.episodes("idle"), strict=True)
    solutions = [episode for episode, idle in pairs if is_solved(episode) and not is_solved(idle)]
    played: list[CheckedEpisode] = []
    with subject.env() as env:
        for episode in _spread(solutions):
            *before, answer = episode.actions
            wrong = (to_the_end([*before, action]) for action in islice(spoiled_action(env, answer), _WRONG_ANSWERS))
            if any(not is_solved(_as_far_as_it_goes(env, episode, player)) for player in wrong):
                idle = [then_silence(before)]
                if before and not _tools_in(env, before[-1]) & _tools_in(env, answer):
                    idle.append(to_the_end(before))
                played.append(
                    max((_as_far_as_it_goes(env, episode, player) for player in idle), key=attrgetter("outcome"))
                )
    if not played:
        raise CheckSkipped("no solution ends with an answer")
    solved = [episode for episode in played if is_solved(episode)]
    if len(solved) > RANDOM_LIMIT / 2 * len(played):
        raise CheckFailed(
            f"waiting in place of the answer solved {len(solved)} of {len(played)} tasks, e.g. "
            f"{solved[0].task.id!r}; pay the outcome for the answer, not for reaching the end"
        )
    return f"solved {len(solved)} of {len(played)} tasks"


def _tools_in(env: Env, action: Action) -> set[str]:
    return {call.name for call in calls_in(env, action)}


@check("omissions-fail", "a solution that omits a required change does not succeed")
def omissions_fail(subject: Subject) -> Finding:
    """Where the final state decides, every action of a solution that changes the state is graded.

    An action changes the state if some call gives a different answer after it. It is graded if omitting it prevents
    success. If the last action of the solution solves the task alone, the answer decides, not the state.
    """
    solutions = subject.episodes("solution")
    if not any(map(is_solved, solutions)):
        raise CheckSkipped("no solution solves its task")
    if not any(stumbled.stumble.slip is Slip.OMITTED for stumbled in subject.stumbled):
        raise CheckSkipped("solutions are one action long")
    patience = Patience(_SECONDS)
    by_answer: dict[str, bool] = {}
    examined = 0
    with subject.env() as env:
        endings = ending_tools(env, solutions)
        for stumbled in subject.stumbled:
            if not _had_no_effect(stumbled):
                continue
            solved = stumbled.solved
            if solved.task.id not in by_answer:
                alone = play(env, solved.task, solved.seed, to_the_end(solved.actions[-1:]))
                by_answer[solved.task.id] = is_solved(alone)
            if by_answer[solved.task.id]:
                continue
            examined += 1
            if (read := _shows_change(env, solved, stumbled.stumble.index, endings)) is not None:
                left_out = action_text(env, solved.actions[stumbled.stumble.index])
                raise CheckFailed(
                    f"task {solved.task.id!r} counts as solved although {left_out} was left out, which changes what "
                    f"{action_text(env, read)} shows; grade everything that the task asks for, or leave the action "
                    "out of solution()"
                )
            if patience.is_over:
                break
    if by_answer and all(by_answer.values()):
        raise CheckSkipped("an answer decides, not the state")
    return f"examined {examined} omissions that went unnoticed"


def _long_solutions(subject: Subject) -> list[CheckedEpisode]:
    """Return the solutions that end their episodes after more than one action."""
    episodes = subject.episodes("solution")
    solutions = [
        episode
        for episode in episodes
        if len(episode.actions) > 1 and episode.results[-1].terminated and is_solved(episode)
    ]
    if len({canonical(episode.task.gold) for episode in solutions}) < _FEWEST_TASKS:
        raise CheckSkipped("too few solutions solve their task in more than one action")
    return solutions


def _spread(episodes: Sequence[CheckedEpisode]) -> Sequence[CheckedEpisode]:
    return episodes[:: max(1, -(-len(episodes) // 6))]


def _other(episode: CheckedEpisode, solutions: Sequence[CheckedEpisode]) -> CheckedEpisode:
    """Return a solution of a task with different gold, preferably with a different end, else with different actions."""
    gold = canonical(episode.task.gold)
    others = [solution for solution in solutions if canonical(solution.task.gold) != gold]
    unlike = [solution for solution in others if canonical(solution.actions) != canonical(episode.actions)]
    return next((solution for solution in others if _ends_differently(solution, episode)), [*unlike, *others][0])


def _as_far_as_it_goes(env: Env, episode: CheckedEpisode, player: ScriptedPlayer) -> CheckedEpisode:
    """Play the task of an episode until it ends or breaks, which other checks report."""
    try:
        return play(env, episode.task, episode.seed, player)
    except Broken as broken:
        return broken.episode


def _ends_differently(episode: CheckedEpisode, other: CheckedEpisode) -> bool:
    return canonical(episode.actions[-1]) != canonical(other.actions[-1])


def _may_hold_an_answer(env: Env, action: Action) -> bool:
    """Return whether an action could contain an answer."""
    calls = calls_in(env, action)
    return not calls or any(call.arguments for call in calls)


def _had_no_effect(stumbled: Stumbled) -> bool:
    """Return whether omitting an action had no effect: solved, with every later answer but the last unchanged."""
    if stumbled.stumble.slip is not Slip.OMITTED or not is_solved(stumbled.episode) or not stumbled.episode.ended:
        return False
    after = _answers(stumbled.solved)[stumbled.stumble.index + 1 : -1]
    return after == _answers(stumbled.episode)[stumbled.stumble.index : -1]


def _answers(episode: CheckedEpisode) -> list[str]:
    """Return the text shown in each turn, without call ids, which count the turns."""
    return ["\n".join(text_of(message) for message in result.observation) for result in episode.results]


def _shows_change(env: Env, solved: CheckedEpisode, index: int, endings: Sequence[str]) -> Action | None:
    """Return a call whose answer shows that action `index` of a solution changes something, or `None`.

    Only calls that give the same answer twice in a row are used. If any exist, an action that answers differently when
    repeated has changed something too.
    """
    before, action = solved.actions[:index], solved.actions[index]
    repeatable = False
    for read in _reads(env, solved, action, endings):
        once, twice = _answer_to(env, solved, [*before, read]), _answer_to(env, solved, [*before, read, read])
        if once is None or once != twice:
            continue
        repeatable = True
        if _answer_to(env, solved, [*before, action, read]) not in (once, None):
            return read
    again = _answer_to(env, solved, [*before, action, action])
    return action if repeatable and again not in (_answer_to(env, solved, [*before, action]), None) else None


def _answer_to(env: Env, solved: CheckedEpisode, actions: Sequence[Action]) -> str | None:
    """Return the answer to the last of these actions; `None` if the episode ends before or with it."""
    episode = play(env, solved.task, solved.seed, lambda *_: iter(actions))
    return None if episode.ended or len(episode.results) < len(actions) else _answers(episode)[-1]


def _reads(env: Env, solved: CheckedEpisode, action: Action, endings: Sequence[str]) -> list[Action]:
    """Return calls that may show what the action changed.

    These are calls of every tool that accepts the arguments of the action's own call, the other calls of the solution,
    and calls of tools that accept the arguments of those.
    """
    solution_calls = [call for step in solved.actions for call in calls_in(env, step)]
    changing = calls_in(env, action)
    own = {canonical([call.name, call.arguments]) for call in changing}
    reads: dict[str, Action] = {}
    for call in [*_alike(env, changing), *solution_calls, *_alike(env, solution_calls)]:
        key = canonical([call.name, call.arguments])
        if call.name not in endings and key not in own:
            reads.setdefault(key, assistant_call(ToolCall(call.name, call.arguments)))
    return list(reads.values())[:_MOST_READS]


def _alike(env: Env, calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """Yield calls of all tools whose required arguments are among those of one of these calls."""
    for call in calls:
        for tool in env.tools:
            needed = tool.parameters.get("required", ())
            if all(name in call.arguments for name in needed):
                yield ToolCall(tool.name, {name: call.arguments[name] for name in needed})


CHECKS = (ending_alone_fails, other_solution_fails, unfinished_fails, omissions_fail)
