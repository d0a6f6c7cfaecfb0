"""`WithFeedback`: a rollout method with a simulated user who comments on the turns."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast, get_args

from agentgym.base.choices import one_of
from agentgym.base.errors import UsageError, has_error
from agentgym.core.engine.spaces import Action, is_text, text_in
from agentgym.core.messages import Message, text_of, user
from agentgym.core.policy import ChatPolicy, Policy, ScriptedPolicy, TokenPolicy
from agentgym.core.task import Task
from agentgym.rollout.episode import Episode
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.lookahead.cost import SearchCost
from agentgym.rollout.lookahead.voice import answer_of
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import EpisodeOpening

RUN = 5
"""Number of consecutive words that reveal a longer value, such as a query or a program."""

_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_SHORT = 2
"""One-word values up to this length are compared case-sensitively: the choice `A` is not an article."""


def reveals(text: str, gold: Mapping[str, Any], context: str) -> bool:
    """Whether a text mentions a value of the gold that is not in `context`.

    Args:
        text: The feedback.
        gold: The gold of the task.
        context: The text of the episode since the opening. The opening itself does not count: it may list candidates,
            and feedback that picks the right one reveals it.
    """
    return any(_brings_up(text, context, words) for value in _values(gold) for words in _parts(value))


def _brings_up(text: str, context: str, words: list[str]) -> bool:
    fold = len(words) > 1 or any(len(word) > _SHORT for word in words)
    part = _folded(words) if fold else words
    text_words, context_words = (_folded(_words(source)) if fold else _words(source) for source in (text, context))
    return _has(text_words, part) and not _has(context_words, part)


def _values(gold: Any) -> Iterator[str]:
    """Yield the texts and numbers in the gold."""
    if isinstance(gold, Mapping):
        gold = list(gold.values())
    if isinstance(gold, list | tuple | set | frozenset):
        for item in gold:
            yield from _values(item)
    elif isinstance(gold, str | int | float) and not isinstance(gold, bool):
        yield f"{gold:g}" if isinstance(gold, float) else str(gold)


def _parts(value: str) -> Iterator[list[str]]:
    words = _words(value)
    if len(words) <= RUN:
        yield words
    else:
        yield from (words[at : at + RUN] for at in range(len(words) - RUN + 1))


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _folded(words: list[str]) -> list[str]:
    return [word.casefold() for word in words]


def _has(words: list[str], part: list[str]) -> bool:
    """Whether `part` occurs as a run in `words`."""
    if not part:
        return False
    starts = (at for at, word in enumerate(words) if word == part[0])
    return any(words[at : at + len(part)] == part for at in starts)


@dataclass(frozen=True)
class FeedbackContext:
    """An episode after a turn that did not end it."""

    task: Task
    """Includes the gold, which simulators must not reveal."""
    opening: Sequence[Message]
    turns: Sequence[tuple[Action, Sequence[Message]]]
    """Each action so far, with its observation and feedback."""
    max_turns: int

    @property
    def turns_left(self) -> int:
        """Number of remaining turns."""
        return self.max_turns - len(self.turns)

    @property
    def since(self) -> str:
        """The text of the policy's turns and of the observations after the opening."""
        return "\n".join(f"{text_in(action)}\n{observation_text(observation)}" for action, observation in self.turns)


def observation_text(observation: Sequence[Message]) -> str:
    """Return the text of an observation."""
    return "\n".join(text_of(message) for message in observation)


@dataclass(frozen=True)
class Remark:
    """A simulator's comment."""

    text: str = ""
    """Empty if it has nothing to say."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Usage that an endpoint reports for it."""


class Simulator(Protocol):
    """Gives feedback. One object serves many concurrent episodes, so it must be stateless."""

    @property
    def name(self) -> str:
        """Name in reports, with every setting that changes its comments."""
        ...

    @property
    def sees_gold(self) -> bool:
        """Whether it sees the gold; its comments are then checked for leaks."""
        ...

    async def remark(self, scene: FeedbackContext, key: str) -> Remark:
        """Comment on the last turn.

        Args:
            scene: The episode so far.
            key: Identifies the request; seeds are derived from it.

        Raises:
            InfrastructureError: The simulator broke; the episode fails and is retried.
        """
        ...


When = Literal["turn", "mistake"]
"""Turns that get feedback: all that do not end the episode, or those with an error."""

GIVEN, WITHHELD = "feedback", "feedback_withheld"
"""Counts in `Trajectory.counts`."""


class Adviser:
    """The feedback of one episode.

    Args:
        simulator: Source of the feedback.
        when: Turns that get feedback.
        job: The job being played.
    """

    def __init__(self, simulator: Simulator, when: When, job: Job):
        self._simulator, self._when, self._job = simulator, when, job
        self._turns: list[tuple[Action, list[Message]]] = []
        self.counts: Counter[str] = Counter({GIVEN: 0, WITHHELD: 0})
        self.usage: Counter[str] = Counter()
        """Usage that endpoints report for the feedback, under names prefixed with `feedback_`."""

    async def after(self, opening: EpisodeOpening, action: Action, observation: list[Message]) -> list[Message]:
        """Return the feedback on a turn that did not end the episode: a user message, or an empty list."""
        self._turns.append((action, observation))
        if self._when == "mistake" and not has_error(observation_text(observation)):
            return []
        scene = FeedbackContext(self._job.task, opening.messages, list(self._turns), opening.max_turns)
        key = f"{self._job.seed}/{self._job.id}/feedback{len(self._turns)}"
        remark = await self._simulator.remark(scene, key)
        self.usage.update({f"feedback_{name}": value for name, value in remark.usage.items()})  # type: ignore[arg-type]
        if not remark.text:
            return []
        if self._simulator.sees_gold and reveals(remark.text, self._job.task.gold, scene.since):
            self.counts[WITHHELD] += 1
            return []
        self.counts[GIVEN] += 1
        messages = [user(remark.text)]
        self._turns[-1] = action, [*observation, *messages]
        return messages


MOST_CHARS = 2_000
"""Longer feedback is cut."""
_CONVERSATION_CHARS = 24_000

_QUESTION = """An assistant works on a task with tools, and you watch as its user. You know the right answer, which \
only serves you to judge whether the assistant is on the right way:

{gold}

NEVER reveal the answer or a part of it, and do not make the next step for the assistant. Here is the conversation so \
far:

{conversation}

In at most two sentences, tell the assistant what is good or wrong about its last step and what to think about next."""


@dataclass(frozen=True)
class ModelUser:
    """Asks a policy for feedback.

    Args:
        policy: The model.
        limits: Limits of a comment.
    """

    policy: ChatPolicy | TokenPolicy
    limits: Limits = field(default_factory=Limits)

    sees_gold = True

    def __post_init__(self) -> None:
        if isinstance(self.policy, ScriptedPolicy):
            raise UsageError("a scripted policy cannot give feedback: name a model, or use --feedback scripted")

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.policy.name

    async def remark(self, scene: FeedbackContext, key: str) -> Remark:
        """Ask the model."""
        cost = SearchCost()
        text = await answer_of(self.policy, _question(scene), key, self.limits, cost)
        usage = {"completion_tokens": cost.sampled_tokens, "prompt_tokens": cost.prompt_tokens, "cost": cost.cost}
        return Remark(text.strip()[:MOST_CHARS], {name: value for name, value in usage.items() if value})


def _question(scene: FeedbackContext) -> str:
    parts = [f"[user] {observation_text(scene.opening)}"]
    for action, observation in scene.turns:
        parts += [f"[assistant] {text_in(action) if isinstance(action, str) else json.dumps(action, default=str)}"]
        parts += [f"[result] {observation_text(observation)}"]
    text = "\n".join(parts)
    half = _CONVERSATION_CHARS // 2
    text = text if len(text) <= _CONVERSATION_CHARS else f"{text[:half]}\n[…]\n{text[-half:]}"
    return _QUESTION.format(gold=json.dumps(dict(scene.task.gold), default=str)[:8_000], conversation=text)


FEW = 2
"""The user announces the turns left from this number down."""


@dataclass(frozen=True)
class ScriptedUser:
    """Comments like a patient user, or says nothing."""

    name = "scripted"
    sees_gold = False

    async def remark(self, scene: FeedbackContext, key: str) -> Remark:
        """Comment on an error or repetition in the last turn, and on the turns left if they are few."""
        parts = [_about_the_turn(scene), _about_time(scene)]
        return Remark(" ".join(part for part in parts if part))


def _about_the_turn(scene: FeedbackContext) -> str:
    action, observation = scene.turns[-1]
    texts = [_action_text(earlier) for earlier, _ in scene.turns[:-1]]
    same = [number for number, text in enumerate(texts, start=1) if text == _action_text(action)]
    failed = has_error(observation_text(observation))
    if same and failed:
        return f"You did the same in turn {same[-1]} and it failed again. Read the error and change what it names."
    if same:
        return f"You did the same in turn {same[-1]}. Use what you learned then, or try something else."
    if failed and len(scene.turns) > 1 and has_error(observation_text(scene.turns[-2][1])):
        return "That failed again. Step back: look at what you know for certain, and try a simpler step."
    return "That did not work. Read the error: it says what to change." if failed else ""


def _about_time(scene: FeedbackContext) -> str:
    turns = scene.turns_left
    if turns == 0 or turns > FEW:
        return ""
    return f"You have {turns} turn{'s' if turns > 1 else ''} left: give your best answer now."


def _action_text(action: Action) -> str:
    if isinstance(action, str) or is_text(action):
        return " ".join(text_in(action).split())
    calls = action.get("tool_calls") or ()
    return json.dumps([call.get("function") if isinstance(call, Mapping) else call for call in calls], default=str)


@dataclass(frozen=True)
class WithFeedback:
    """Adds feedback to observations. Trajectories record it, so they replay without the simulator."""

    simulator: Simulator
    when: When = "turn"

    places = 1

    def __post_init__(self) -> None:
        one_of("when", self.when, get_args(When))

    def named(self, policy: str) -> str:
        """Return the name under which results of a policy with this feedback are recorded."""
        return f"{policy} with feedback: {self.simulator.name},when={self.when}"

    def attempt(
        self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits, places: int
    ) -> Episode:
        """Play an episode with feedback."""
        adviser = Adviser(self.simulator, self.when, job)
        return Episode(job, policy, factory, limits, waits, name=self.named(policy.name), listener=adviser)


SCRIPTED = "scripted"
_WHEN = re.compile(r",\s*when=(\w*)$")


@dataclass(frozen=True)
class TypedFeedback:
    """A feedback setting whose model is not loaded yet."""

    source: str
    when: When

    @property
    def name(self) -> str:
        """The setting as typed, in full."""
        return f"{self.source},when={self.when}"

    @property
    def model(self) -> str | None:
        """The name of the policy that gives feedback; `None` for the script."""
        return None if self.source == SCRIPTED else self.source

    def loaded(self, load_model: Callable[[str], Policy]) -> WithFeedback:
        """Return the feedback.

        Args:
            load_model: Loads the model by its name.
        """
        if self.model is None:
            return WithFeedback(ScriptedUser(), self.when)
        policy = load_model(self.model)
        if isinstance(policy, ScriptedPolicy):
            raise UsageError("a scripted policy cannot give feedback: name a model, or use --feedback scripted")
        return WithFeedback(ModelUser(policy), self.when)


def read_feedback(text: str) -> TypedFeedback:
    """Parse the value of `--feedback`. Raises `UsageError` if it is empty or has an unknown `when`."""
    match = _WHEN.search(text)
    source, when = (text[: match.start()], match[1]) if match else (text, "turn")
    if not source.strip():
        raise UsageError("--feedback takes scripted, or a model such as openai:MODEL@URL")
    return TypedFeedback(source.strip(), cast(When, one_of("when", when, get_args(When))))
