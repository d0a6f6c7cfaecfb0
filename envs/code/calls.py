"""Loads a submitted function and calls it in a sandbox, and keeps what came of each call.

`load` is sent no arguments, and only what it finds may be shown to the model. `call_apart` sends each of the arguments
to a process of its own, and nothing that these processes say is shown to anyone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.envs.code.asking import Ask, Reply
from agentgym.envs.code.inside import exception_named
from agentgym.envs.code.plain import Unfit, decode, encode
from agentgym.errors import BrokenTask
from agentgym.tools.sandbox import Ended

MAX_SHOWN = 200
_MESSAGE_CHARS = 300
_UNSHOWN = 20_000
"""Values with more text than this are not looked into to be shown."""
_WARM_S = 0.5
"""A process that needed more processor time than this is not made to do other calls first."""
_PROBLEMS = {
    "syntax": "The code does not compile: {error}",
    "raised": "Running the code raised {error}",
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

    def shown(self) -> str:
        """Return what the call did, in a few words for the model."""
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
    """What came of all calls in one process."""

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


@dataclass(frozen=True)
class Loaded:
    """What came of loading a source."""

    ok: bool
    """Whether it defines the function."""
    problem: str | None = None
    """What is wrong with it: the kind of error and a line of the source, no text of anyone's choice."""


def load(submission: Submission, ask: Ask) -> Loaded:
    """Load a source in a process that is sent no arguments, and so has none to give away."""
    reply = ask(submission.request("call", calls=[], call_s=0))
    if reply.lines[1:2] and reply.lines[1].get("problem") == "prelude":  # before anything that was submitted ran
        raise BrokenTask(f"the task's own prelude raised {reply.lines[1].get('message')}")
    trouble = reply.line_with("problem")
    if reply.first("loaded") is None and (text := _PROBLEMS.get(str(trouble.get("problem")))):
        return Loaded(False, text.format(error=_kind_and_line(submission.source, trouble), name=submission.name))
    return Loaded(reply.result.ended is Ended.EXITED and reply.first("loaded") is True)


def call_together(submission: Submission, arguments: Sequence[Any], ask: Ask, call_s: float) -> Calls:
    """Call the function with each of the arguments (trees) in one process, for the model to see what comes of it."""
    if not arguments:
        return Calls(())
    reply = ask(submission.request("call", calls=list(arguments), call_s=call_s))
    trouble = reply.line_with("problem")
    if not any("number" in line for line in reply.lines) and trouble.get("problem") in _PROBLEMS:
        message = str(trouble.get("message"))[:_MESSAGE_CHARS]
        return Calls((), _PROBLEMS[trouble["problem"]].format(error=message, name=submission.name))
    found = _outcomes(reply)
    missing = Outcome(problem=_unfinished(reply.result.ended))
    return Calls(tuple(found.get(number, missing) for number in range(len(arguments))))


def call_apart(
    submission: Submission, arguments: Sequence[Any], before: Sequence[Any], ask: Ask, call_s: float
) -> tuple[Outcome, ...]:
    """Call the function with each of the arguments (trees), each in a process of its own that is sent no other.

    A function that remembers something from one call to the next must not come out right because of that. So in every
    process but the first, other calls come before: those that the model knows anyway, or else the same one.

    Args:
        submission: What defines the function.
        arguments: The trees of the arguments.
        before: Arguments of the calls that may come before.
        ask: Runs a request in a process of its own.
        call_s: Seconds of processor time that one call may take.
    """
    outcomes: list[Outcome] = []
    warm = False
    for tree in arguments:
        calls = [*(before or [tree]), tree] if warm else [tree]
        reply = ask(submission.request("call", calls=calls, call_s=call_s))
        outcomes.append(_outcomes(reply).get(len(calls) - 1, Outcome(problem=_unfinished(reply.result.ended))))
        if reply.result.ended in (Ended.TIMEOUT, Ended.CPU) or any("slow" in line for line in reply.lines):
            break  # it cannot pass any more, and the others may be as slow
        warm = reply.result.usage.cpu_s < _WARM_S
    return (*outcomes, *[Outcome(problem="was not called any more")] * (len(arguments) - len(outcomes)))


def _outcomes(reply: Reply) -> dict[int, Outcome]:
    """Return what came of the calls, by their number."""
    found: dict[int, Outcome] = {}
    for line in reply.lines:
        number = line.get("number")
        if type(number) is int and number not in found:
            found[number] = _outcome(line)
    return found


def _kind_and_line(source: str, trouble: Mapping[str, Any]) -> str:
    """Return the kind of an error and where it was, if that is what the reply says and nothing else."""
    try:
        kind = exception_named(trouble.get("kind")).__name__
    except (Unfit, TypeError):
        kind = "an error"
    line = trouble.get("line")
    known = type(line) is int and 1 <= line <= source.count("\n") + 1
    return f"{kind} (line {line})" if known else kind


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
