"""Runs a submitted function on arguments in a sandbox, and keeps what came of each call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.envs.code.asking import Ask
from agentgym.envs.code.inside import exception_named
from agentgym.envs.code.plain import Unfit, decode, encode
from agentgym.tools.sandbox import Ended

MAX_SHOWN = 200
_MESSAGE_CHARS = 300
_UNSHOWN = 20_000
"""Values with more text than this are not looked into to be shown."""
_PROBLEMS = {
    "syntax": "The code does not compile: {message}",
    "raised": "Running the code raised {message}",
    "missing": "The code does not define the function {name!r}.",
}


@dataclass(frozen=True)
class Submission:
    """What is to be judged: source that defines a function."""

    source: str
    name: str
    prelude: str = ""
    """Source that the task runs before it."""

    def request(self, op: str, **more: Any) -> dict[str, Any]:
        """Return a request about this source."""
        return {"op": op, "source": self.source, "name": self.name, "prelude": self.prelude, **more}


@dataclass(frozen=True)
class Outcome:
    """What came of one call: a value's tree, an exception, or neither."""

    tree: Any = None
    size: int = 0
    """Characters of the tree's text."""
    raised: str | None = None
    after: Any = None
    """Tree of the arguments, if the call changed them."""
    problem: str | None = None
    """Why there is no value, in words for the model."""

    def value(self, max_size: int) -> Any:
        """Return the value. Raises `Unfit` if there is none, or if its text is longer than `max_size`."""
        if self.problem is not None or self.size > max_size:
            raise Unfit(self.problem or f"a value of {self.size} characters")
        return decode(self.tree)

    def told(self) -> str:
        """Return what the call did, in a few words."""
        try:
            text = repr(self.value(_UNSHOWN))
        except Unfit as error:
            return self.problem or f"returned {error}"
        except ValueError:  # a whole number with more digits than Python writes
            return "returned a very large number"
        return f"returned {text if len(text) <= MAX_SHOWN else f'{text[:MAX_SHOWN]}… ({len(text)} characters)'}"

    def answer(self) -> dict[str, Any] | None:
        """Return what a stand-in for the function needs to do the same, or `None` if it cannot."""
        after = {} if self.after is None else {"after": self.after}
        if self.raised is not None:
            return {"raised": self.raised, "message": self.problem or ""} | after
        return None if self.problem is not None else {"value": self.tree} | after


@dataclass(frozen=True)
class Calls:
    """What came of all calls."""

    outcomes: tuple[Outcome, ...]
    problem: str | None = None
    """What is wrong with the source as a whole; then nothing was called."""


def written_call(name: str, args: str) -> str:
    """Return a call as Python writes it, given the literal of the tuple of its arguments."""
    inner = args.strip()[1:-1].strip()
    return f"{name}({inner.removesuffix(',')})"


def arguments_of(value: Any) -> Any:
    """Return the tree in which the arguments of a call travel, given the tuple of them."""
    return encode([tuple(value) if isinstance(value, list | tuple) else (value,), {}])


def call_function(submission: Submission, arguments: Sequence[Any], ask: Ask, call_s: float) -> Calls:
    """Call the function with each of the arguments (trees), in one process, one after the other."""
    reply = ask(submission.request("call", calls=list(arguments), call_s=call_s))
    trouble = reply.line_with("problem")
    if not any("number" in line for line in reply.lines) and trouble.get("problem") in _PROBLEMS:
        message = str(trouble.get("message"))[:_MESSAGE_CHARS]
        return Calls((), _PROBLEMS[trouble["problem"]].format(message=message, name=submission.name))
    found: dict[int, Outcome] = {}
    for line in reply.lines:
        number = line.get("number")
        if type(number) is int:
            found.setdefault(number, _outcome(line))
    missing = Outcome(problem=_unfinished(reply.result.ended))
    return Calls(tuple(found.get(number, missing) for number in range(len(arguments))))


def _outcome(line: Mapping[str, Any]) -> Outcome:
    after = line.get("after")
    if "raised" in line:
        message = str(line.get("message"))[:_MESSAGE_CHARS]
        try:
            return Outcome(raised=exception_named(line["raised"]).__name__, after=after, problem=f"raised {message}")
        except (Unfit, TypeError):
            return Outcome(problem="raised something odd")
    if "slow" in line:
        return Outcome(problem="took too long and was stopped")
    if "unfit" in line:
        return Outcome(problem=f"returned {str(line['unfit'])[:_MESSAGE_CHARS]}")
    if "value" not in line:
        return Outcome(problem="returned nothing that could be read")
    return Outcome(line["value"], len(json.dumps(line["value"])), after=after)


def _unfinished(ended: Ended) -> str:
    if ended is Ended.EXITED:
        return "ended the process before it returned"
    return f"was stopped before it returned ({ended.value})"
