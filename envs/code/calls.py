"""Loads a submitted function, calls it in a sandbox and records the outcome of each call.

Only the findings of `load`, which sends no arguments, may be shown to the model. `call_apart` sends the arguments of
each call to a separate process, and shows nothing that these processes report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.base.errors import BrokenTask
from agentgym.envs.code.asking import Ask, GraderReply
from agentgym.envs.code.inside import exception_named
from agentgym.envs.code.plain import NotPlain, decode, encode
from agentgym.tools.sandbox import Ended

MAX_SHOWN = 200
_MESSAGE_CHARS = 300
_UNSHOWN = 20_000
"""Values with more text than this are not decoded for display."""
_WARM_S = 0.5
"""After a process that needed more processor time than this, the next one makes no warm-up calls."""
_PROBLEMS = {
    "syntax": "The code does not compile: {error}",
    "raised": "Running the code raised {error}",
    "missing": "The code does not define the function {name!r}.",
}


@dataclass(frozen=True)
class Submission:
    """A submission to grade: source that defines a function."""

    source: str
    name: str
    prelude: str = ""
    """Source that the task runs first."""

    def request(self, op: str, **more: Any) -> dict[str, Any]:
        """Return a request about this source."""
        return {"op": op, "source": self.source, "name": self.name, "prelude": self.prelude, **more}


@dataclass(frozen=True)
class FunctionOutcome:
    """The outcome of one call: the tree of a value, an exception, or neither."""

    tree: Any = None
    size: int = 0
    """Characters of the tree's text."""
    raised: str | None = None
    after: Any = None
    """Tree of the arguments, if the call changed them."""
    problem: str | None = None
    """Why the call returned no value, as text for the model."""

    def value(self, max_size: int) -> Any:
        """Return the value. Raises `NotPlain` if the call failed or the value's text is longer than `max_size`."""
        if self.problem is not None or self.size > max_size:
            raise NotPlain(self.problem or f"a value of {self.size} characters")
        return decode(self.tree)

    def shown(self) -> str:
        """Return a short text for the model about the result of the call."""
        try:
            text = repr(self.value(_UNSHOWN))
        except NotPlain as error:
            return self.problem or f"returned {error}"
        except ValueError:  # a whole number with more digits than Python writes
            return "returned a very large number"
        return f"returned {text if len(text) <= MAX_SHOWN else f'{text[:MAX_SHOWN]}… ({len(text)} characters)'}"

    def answer(self) -> dict[str, Any] | None:
        """Return what a stand-in for the function needs to reproduce this outcome, or `None` if it cannot."""
        after = {} if self.after is None else {"after": self.after}
        if self.raised is not None:
            return {"raised": self.raised, "message": self.problem or ""} | after
        return None if self.problem is not None else {"value": self.tree} | after


@dataclass(frozen=True)
class BatchOutcome:
    """The outcomes of all calls in one process."""

    outcomes: tuple[FunctionOutcome, ...]
    problem: str | None = None
    """Error in the source as a whole; if set, nothing was called."""


def call_source(name: str, args: str) -> str:
    """Return the source of a call, given the literal of its argument tuple."""
    inner = args.strip()[1:-1].strip()
    return f"{name}({inner.removesuffix(',')})"


def arguments_of(value: Any) -> Any:
    """Return the tree that carries the arguments of a call, given as a tuple."""
    return encode([tuple(value) if isinstance(value, list | tuple) else (value,), {}])


@dataclass(frozen=True)
class Loaded:
    """The result of loading a source."""

    ok: bool
    """Whether it defines the function."""
    problem: str | None = None
    """The type of the error and its line in the source, without any text that the source could choose."""


def load(submission: Submission, ask: Ask) -> Loaded:
    """Load a source in a process that receives no arguments and so cannot leak any."""
    reply = ask(submission.request("call", calls=[], call_s=0))
    if reply.lines[1:2] and reply.lines[1].get("problem") == "prelude":  # reported before any submitted code ran
        raise BrokenTask(f"the task's own prelude raised {reply.lines[1].get('message')}")
    failure = reply.line_with("problem")
    if reply.first("loaded") is None and (text := _PROBLEMS.get(str(failure.get("problem")))):
        return Loaded(False, text.format(error=_kind_and_line(submission.source, failure), name=submission.name))
    return Loaded(reply.result.ended is Ended.EXITED and reply.first("loaded") is True)


def call_together(submission: Submission, arguments: Sequence[Any], ask: Ask, call_s: float) -> BatchOutcome:
    """Call the function with each of the arguments (trees) in one process; the model may see the outcomes."""
    if not arguments:
        return BatchOutcome(())
    reply = ask(submission.request("call", calls=list(arguments), call_s=call_s))
    failure = reply.line_with("problem")
    if not any("number" in line for line in reply.lines) and failure.get("problem") in _PROBLEMS:
        message = str(failure.get("message"))[:_MESSAGE_CHARS]
        return BatchOutcome((), _PROBLEMS[failure["problem"]].format(error=message, name=submission.name))
    outcomes = _outcomes(reply)
    missing = FunctionOutcome(problem=_unfinished(reply.result.ended))
    return BatchOutcome(tuple(outcomes.get(number, missing) for number in range(len(arguments))))


def call_apart(
    submission: Submission, arguments: Sequence[Any], warm_up: Sequence[Any], ask: Ask, call_s: float
) -> tuple[FunctionOutcome, ...]:
    """Call the function with each of the arguments (trees), in a separate process for each call.

    State that a function carries from one call to the next must not help it pass. So every process but the first makes
    warm-up calls: the examples, which the model knows anyway, or the same call if the task has no examples.

    Args:
        submission: The source that defines the function.
        arguments: The trees of the arguments.
        warm_up: Arguments of the warm-up calls.
        ask: Runs a request in a process of its own.
        call_s: Seconds of processor time that one call may take.
    """
    outcomes: list[FunctionOutcome] = []
    warm = False
    for tree in arguments:
        calls = [*(warm_up or [tree]), tree] if warm else [tree]
        reply = ask(submission.request("call", calls=calls, call_s=call_s))
        outcomes.append(_outcomes(reply).get(len(calls) - 1, FunctionOutcome(problem=_unfinished(reply.result.ended))))
        if reply.result.ended in (Ended.TIMEOUT, Ended.CPU) or any("slow" in line for line in reply.lines):
            break  # the submission can no longer pass, and the other calls may be as slow
        warm = reply.result.usage.cpu_s < _WARM_S
    return (*outcomes, *[FunctionOutcome(problem="was not called")] * (len(arguments) - len(outcomes)))


def _outcomes(reply: GraderReply) -> dict[int, FunctionOutcome]:
    """Return the outcomes of the calls, by their number."""
    outcomes: dict[int, FunctionOutcome] = {}
    for line in reply.lines:
        number = line.get("number")
        if type(number) is int and number not in outcomes:
            outcomes[number] = _outcome(line)
    return outcomes


def _kind_and_line(source: str, failure: Mapping[str, Any]) -> str:
    """Return the type of an error and its line, each only if the reply states a valid one."""
    try:
        kind = exception_named(failure.get("kind")).__name__
    except (NotPlain, TypeError):
        kind = "an error"
    line = failure.get("line")
    is_in_source = type(line) is int and 1 <= line <= source.count("\n") + 1
    return f"{kind} (line {line})" if is_in_source else kind


def _outcome(line: Mapping[str, Any]) -> FunctionOutcome:
    after = line.get("after")
    if "raised" in line:
        message = str(line.get("message"))[:_MESSAGE_CHARS]
        try:
            return FunctionOutcome(
                raised=exception_named(line["raised"]).__name__, after=after, problem=f"raised {message}"
            )
        except (NotPlain, TypeError):
            return FunctionOutcome(problem="raised an exception of an unknown type")
    if "slow" in line:
        return FunctionOutcome(problem="took too long and was stopped")
    if "unfit" in line:
        return FunctionOutcome(problem=f"returned {str(line['unfit'])[:_MESSAGE_CHARS]}")
    if "value" not in line:
        return FunctionOutcome(problem="returned nothing readable")
    return FunctionOutcome(line["value"], len(json.dumps(line["value"])), after=after)


def _unfinished(ended: Ended) -> str:
    if ended is Ended.EXITED:
        return "ended the process before it returned"
    return f"was stopped before it returned ({ended.value})"
