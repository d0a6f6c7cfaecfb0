"""Checks that the grader's private data never reaches the policy.

Two methods are used. *Canaries*: every text and number in the task's gold that is not in its data is replaced by a
unique value, which must never appear. *Literal search*: longer texts of the real gold must not appear, unless the
policy said them first, the task's data contains them, other tasks show them too (common words), or the world shows them
even after the gold was replaced (an answer that can be found). Text shown after the end of an episode does not count as
a leak, since the policy can no longer use it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from agentgym.check.catalog import check
from agentgym.check.outcomes import CheckFailed, CheckSkipped, Finding, Patience
from agentgym.check.play import Broken, CheckedEpisode, is_over, play, short
from agentgym.check.subject import Subject
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.task import Task

TELLING_CHARS = 8
"""Shorter pieces of gold appear by chance; only canaries detect them."""

_PLAY_SECONDS = 2.0
"""Seconds after which no further stumbling episodes are replayed; those of the other players always are."""

_PLAIN_WORD = re.compile(r"[^\W\d]{1,15}")
"""Single words may legitimately occur in a prompt: names of tables, tools or objects."""

_POINT = re.compile(r"(?<=\d)[.,_'](?=\d)")
"""Separators inside a written number: 1,234,567 or 12345.67."""

_NOTHING = "every text and number of the gold is also in the task's data"

_ADVICE = "keep gold for grade() and solution(); what the policy may see belongs in Task.data"


@check("gold-hidden-at-start", "the opening and its info show nothing of the gold")
def gold_hidden_at_start(subject: Subject) -> Finding:
    """No telling piece of a task's gold appears in its prompt, opening or info."""
    episodes = subject.episodes("idle")
    opening_texts = {
        episode.task.id: _texts([episode.task.prompt, episode.opening, episode.info]) for episode in episodes
    }
    pieces = canaries = 0
    with subject.env() as env:
        for episode in episodes:
            marked, words = _with_canaries(episode.task)
            canaries += len(words)
            common = [opening_texts[other.task.id] for other in episodes if other.task.gold != episode.task.gold]
            secrets = [piece for piece in secrets_of(episode.task) if not _PLAIN_WORD.fullmatch(piece)]
            pieces += len(secrets)
            for piece in secrets:
                if not shows(opening_texts[episode.task.id], piece) or any(shows(other, piece) for other in common):
                    continue
                if shows(episode.task.prompt, piece) or not _world_shows(env, episode, piece):
                    raise CheckFailed(
                        f"task {episode.task.id!r}: the opening or its info shows {short(piece)}; {_ADVICE}"
                    )
            opened = _play_marked(env, marked, replace(episode, actions=[]))
            _must_not_show(words, _texts([opened.opening, opened.info]), f"task {episode.task.id!r}, the opening")
    if not pieces and not canaries:
        raise CheckSkipped(_NOTHING)
    return f"looked for {pieces} pieces of gold and {canaries} canaries"


def _world_shows(env: Env, episode: CheckedEpisode, piece: str) -> bool:
    """Return whether the opening shows `piece` even with the gold replaced: an answer that can be found."""
    opened = _play_marked(env, _with_canaries(episode.task)[0], replace(episode, actions=[]))
    return shows(_texts([opened.opening, opened.info]), piece)


def _must_not_show(words: Sequence[str], text: str, where: str) -> None:
    """Raise `CheckFailed` if `text` contains one of the canaries."""
    text = _POINT.sub("", text)
    if leaks := [word for word in words if word in text]:
        around = short(text[max(0, text.index(leaks[0]) - 60) :])
        raise CheckFailed(
            f"{where}: part of the gold is shown: {around} (the canary {leaks[0]} replaced the gold); {_ADVICE}"
        )


@check("gold-hidden-in-play", "no tool result or info before the end shows anything of the gold")
def gold_hidden_in_play(subject: Subject) -> Finding:
    """Neither canaries in the gold nor the gold itself appear in play before the policy has said them."""
    players = ("random", "solution", "helpless", "stubborn")
    recorded = [subject.episodes(player)[index] for player in players for index in subject.spread()]
    patience = Patience(_PLAY_SECONDS)
    canaries = played = 0
    with subject.env() as env:
        for episode in [*recorded, *(stumbled.episode for stumbled in subject.stumbled)]:
            marked, words = _with_canaries(episode.task)
            again = _play_marked(env, marked, episode)
            for turn, text in _before_the_end(again):
                _must_not_show(words, text, f"task {episode.task.id!r}, turn {turn} of the {episode.player} player")
            _must_not_show_gold(env, episode, again)
            canaries, played = canaries + len(words), played + 1
            if played >= len(recorded) and patience.is_over:
                break
    if not canaries:
        raise CheckSkipped(_NOTHING)
    return f"{canaries} canaries in {played} episodes"


def secrets_of(task: Task) -> list[str]:
    """Return the telling pieces of a task's gold that its data does not contain."""
    public = _texts(task.data)
    return sorted({piece for piece in _leaves(task.gold) if len(piece) >= TELLING_CHARS and piece not in public})


def _must_not_show_gold(env: Env, episode: CheckedEpisode, marked: CheckedEpisode) -> None:
    """Search each turn for pieces of the real gold that the policy has not said before."""
    secrets = secrets_of(episode.task)
    elsewhere = dict(_before_the_end(marked))
    spoken = _texts([episode.opening, episode.info])
    results = dict(_before_the_end(episode))
    for turn, action in enumerate(episode.actions, start=1):
        spoken += _action_words(env, action)
        result_text = results.get(turn, "")
        for piece in secrets:
            # A turn that the marked episode did not reach cannot show whether the world reveals the piece by itself.
            if shows(result_text, piece) and not shows(spoken, piece) and not shows(elsewhere.get(turn, piece), piece):
                raise CheckFailed(
                    f"task {episode.task.id!r}, turn {turn} of the {episode.player} player: a tool result or info "
                    f"shows {short(piece)}; {_ADVICE}"
                )


def _with_canaries(task: Task) -> tuple[Task, list[str]]:
    """Return the task with the texts and numbers of its gold replaced by canaries, and the canaries as displayed text.

    Values that the task's data also contains are kept: they are not secret, and the two may have to agree.
    """
    words: list[str] = []
    public = {piece.casefold() for piece in _pieces(task.data)}
    public_text = _texts(task.data)

    def is_secret(value: str | int | float) -> bool:
        piece = str(value)
        return (
            bool(piece) and piece.casefold() not in public and (len(piece) < TELLING_CHARS or piece not in public_text)
        )

    def mark(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: mark(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [mark(item) for item in value]
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not is_secret(value):
            return value
        digest = sha256(f"{task.id}{len(words)}".encode()).hexdigest()
        # Small enough for a grader that counts up to it.
        number = int(digest[:12], 16) % 10**6 + 10**6
        words.append("canary" + digest[:12] if isinstance(value, str) else str(number))
        return words[-1] if isinstance(value, str) else type(value)(number)

    return replace(task, gold=mark(task.gold)), words


def _pieces(value: Any) -> Iterator[str]:
    """Yield every text and number in a value as text, including keys."""
    if isinstance(value, Mapping):
        yield from map(str, value)
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _pieces(item)
    else:
        yield from _leaves(value)


def _play_marked(env: Env, marked: Task, episode: CheckedEpisode) -> CheckedEpisode:
    """Replay the recorded actions on the marked task as far as possible; its gold may make no sense to the grader."""
    try:
        return play(env, marked, episode.seed, lambda *_: iter(episode.actions))
    except Broken as error:
        return error.episode


def _before_the_end(episode: CheckedEpisode) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every turn that did not end the episode; the opening is turn 0."""
    yield 0, _texts([episode.opening, episode.info])
    for turn, result in enumerate(episode.results, start=1):
        if not is_over(result):
            yield turn, _texts([result.observation, result.info])


def shows(text: str, piece: str) -> bool:
    """Return whether `text` contains `piece`, verbatim or escaped as JSON."""
    return piece in text or json.dumps(piece)[1:-1] in text or json.dumps(piece, ensure_ascii=False)[1:-1] in text


def _action_words(env: Env, action: Action) -> str:
    """Return the text of an action, with the arguments of its calls as the tools receive them."""
    if not isinstance(action, str):
        return _texts(action)
    parsed = env.dialect.parse(action, env.tools)
    return "\n".join([action, *(_texts(call.arguments) for call in parsed.calls)])


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _texts(value: Any) -> str:
    """Return all text in a value as a policy would read it, including keys."""
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return "\n".join(_texts(item) for item in value)
    return value if isinstance(value, str) else repr(value)


CHECKS = (gold_hidden_at_start, gold_hidden_in_play)
