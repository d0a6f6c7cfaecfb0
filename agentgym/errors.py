"""The errors agentgym raises. A *model's* mistake is a `ToolError`; all other errors are ours or the user's.

AgentGymError
├── ToolError (ValueError)             the model's mistake: shown to the model, the episode continues
├── InfrastructureError (RuntimeError) something around the model broke: the rollout is retried, never rewarded
├── UsageError (ValueError)            the caller asked for something impossible: one clear line
│   ├── MissingExtra (ImportError)     an optional dependency is not installed: the message names the command
│   └── NoSolution                     an environment has no solution for a task └── TaskError (LookupError)
no such task, split or manifest entry
    └── BrokenTask                     the task's own gold or files are wrong: it is excluded
"""

from agentgym.mistakes import Mistake


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
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise MissingExtra(f"{module!r} is not installed; run: pip install 'agentgym-suite[{extra}]'")
