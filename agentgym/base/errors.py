"""The errors agentgym raises. A *model's* mistake is a `ToolError`; all other errors are ours or the user's.

AgentGymError
├── ToolError (ValueError)             the model's mistake: shown to the model, the episode continues
├── InfrastructureError (RuntimeError) something around the model broke: the rollout is retried, never rewarded
├── ScriptFailed (RuntimeError)        a scripted player broke: never retried, never a result of a model
├── UsageError (ValueError)            the caller asked for something impossible: one clear line
│   ├── MissingExtra (ImportError)     an optional dependency is not installed: the message names the command
│   └── NoSolution                     an environment has no solution for a task
└── TaskError (LookupError)            no such task, split or manifest entry
    └── BrokenTask                     the task's own gold or files are wrong: it is excluded
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

_PREFIX = "errors/"
NEAR_MISSES = "near_misses/"
"""Prefix of the counts of calls that were written in another form than the dialect's."""
_SHOWN = re.compile(r"(?:^|[>\n])\s*Error: ")


class Mistake(StrEnum):
    """A kind of mistake. Kinds in `OF_TURNS` cost a turn without a call; all others concern a single call."""

    UNREADABLE = "unreadable"
    """The turn, or a call in it, cannot be read."""
    CUT_OFF = "cut_off"
    """The turn was cut off at its token limit, so nothing in it was run."""
    TOO_MANY_CALLS = "too_many_calls"
    """The turn has more calls than the environment allows."""
    REFUSED_TEXT = "refused_text"
    """The environment did not accept the turn's text, for example because it expected a call."""
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_ARGUMENT = "unknown_argument"
    """The arguments contain an unknown name, which takes precedence over other mistakes."""
    MISSING_ARGUMENT = "missing_argument"
    WRONG_ARGUMENT = "wrong_argument"
    """The type or the range of an argument is wrong."""
    TIMEOUT = "timeout"
    """The tool hit its own time limit."""
    REFUSED = "refused"
    """The tool itself refused the call."""


OF_TURNS = (Mistake.UNREADABLE, Mistake.CUT_OFF, Mistake.TOO_MANY_CALLS, Mistake.REFUSED_TEXT)
OF_CALLS = tuple(mistake for mistake in Mistake if mistake not in OF_TURNS)


def of_turn(mistake: Mistake) -> Mistake:
    """Return the kind to count for a turn without a call."""
    return mistake if mistake in OF_TURNS else Mistake.REFUSED_TEXT


def of_call(mistake: Mistake) -> Mistake:
    """Return the kind to count for a call."""
    return mistake if mistake in OF_CALLS else Mistake.REFUSED


def counts_of(mistakes: Mapping[Mistake, int]) -> dict[str, int]:
    """Return how often each kind occurred, under the names that `Trajectory.counts` has for them."""
    return {f"{_PREFIX}{mistake}": count for mistake, count in mistakes.items()}


def count_of(mistake: Mistake, counts: Mapping[str, int]) -> int:
    """Return how often a kind occurred, given `Trajectory.counts`."""
    return counts.get(f"{_PREFIX}{mistake}", 0)


def has_error(observation: str) -> bool:
    """Whether the text of an observation reports a mistake, in any dialect."""
    return _SHOWN.search(observation) is not None


class AgentGymError(Exception):
    """Base of every error raised by agentgym."""


class ToolError(AgentGymError, ValueError):
    """The model's mistake, with an explanation that lets it recover next turn.

    Args:
        args: The message for the model.
        mistake: The kind of mistake, which trajectories count.
    """

    mistake: Mistake = Mistake.REFUSED

    def __init__(self, *args: object, mistake: Mistake = Mistake.REFUSED):
        super().__init__(*args)
        self.mistake = mistake


class InfrastructureError(AgentGymError, RuntimeError):
    """A failure around the model (database, sandbox, network), never the model's fault."""


class ScriptFailed(AgentGymError, RuntimeError):
    """A scripted player, such as `Env.solution`, raised an error or cannot continue."""


class UsageError(AgentGymError, ValueError):
    """The caller's input is unusable; the message says what is wrong, where, and what to do."""


class MissingExtra(UsageError, ImportError):
    """An optional dependency is missing; the message names the install command."""


class NoSolution(UsageError):
    """An environment has no solution for its tasks, or for this one."""


class TaskError(AgentGymError, LookupError):
    """A task, split or manifest entry does not exist."""


class BrokenTask(TaskError):
    """A task that cannot be graded: its gold fails its own check, or something it needs is missing."""


def require(module: str, extra: str) -> None:
    """Raise `MissingExtra` with the install command unless `module` can be imported."""
    require_all([(module, extra)])


def require_all(modules: Iterable[tuple[str, str]]) -> None:
    """Raise `MissingExtra` with one install command unless all modules can be imported.

    Args:
        modules: Names of modules, each with the extra that installs it.
    """
    from importlib.util import find_spec

    missing = {module: extra for module, extra in modules if find_spec(module) is None}
    if missing:
        names, extras = ", ".join(map(repr, missing)), ",".join(dict.fromkeys(missing.values()))
        verb = "is" if len(missing) == 1 else "are"
        raise MissingExtra(f"{names} {verb} not installed; run: pip install 'agentgym-suite[{extras}]'")
