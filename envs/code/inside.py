"""The grader's program inside a sandbox. Sent as text, together with `plain`; needs only Python 3.9.

It reads a request as JSON from stdin and writes its findings as JSON lines to a private reply descriptor. `call` runs a
submitted function on the arguments it receives and knows no expected value: whatever its process reports counts as that
function's values, never as a verdict. `record` and `judge` run a check where no submitted code runs. `together` and
`withheld` run both in one process.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from agentgym.envs.code.plain import NotPlain, decode, dumps, encode

NOTE = "_note"
"""Function that a check with withheld values calls with the number of an assert and the value that it tests."""
SUBMITTED = "<solution>"
"""File name of the submitted source in error messages."""
MAX_VALUE_CHARS = 1_000_000
WALL_FACTOR = 3
"""Ratio of wall-clock time to processor time of a call: a busy machine must not make right answers wrong."""
_MESSAGE_CHARS = 300

Request = Mapping[str, Any]
Say = Callable[..., None]


class TooSlow(BaseException):
    """A call exceeded its time limit."""


def main() -> None:
    """Serve the request on stdin, then exit without running any exit handlers."""
    request = json.load(sys.stdin)
    reply = os.fdopen(int(os.environ["AGENTGYM_REPLY_FD"]), "w")
    _silence()

    def say(**line: Any) -> None:
        reply.write(json.dumps(line) + "\n")
        reply.flush()

    # The first two lines are written before any untrusted code runs, so they can be trusted.
    say(began=True)
    _OPERATIONS[request["op"]](request, say)
    os._exit(0)


def call(request: Request, say: Say) -> None:
    """Call the submitted function with each of the arguments; report each outcome at once."""
    function = _load(request, say)
    if function is None:
        return
    say(loaded=True)
    for number, arguments in enumerate(request["calls"]):
        outcome = _outcome(function, arguments, request["call_s"])
        say(number=number, **outcome)
        if "slow" in outcome:
            break  # the submission can no longer pass, and the other calls may be as slow


def record(request: Request, say: Say) -> None:
    """Run a check with the gold function, and report the arguments of every call."""
    function = _load(request, say)
    if function is None:
        return

    def candidate(*args: Any, **kwargs: Any) -> Any:
        line: dict[str, Any] = {"called": encode([args, kwargs])}
        try:
            result = function(*args, **kwargs)
            if not hasattr(type(result), "__next__"):
                line["gave"] = encode(result)
        finally:
            say(**line)
        return result

    _run_check(request, candidate, say)


def judge(request: Request, say: Say) -> None:
    """Run a check with a stand-in that answers from a table; it stops at arguments that are not in it."""
    table = dict(request["table"])

    def candidate(*args: Any, **kwargs: Any) -> Any:
        key = dumps([args, kwargs])
        if key not in table:
            say(need=encode([args, kwargs]))
            os._exit(0)
        outcome = table[key]
        if "after" in outcome:
            _change(args, kwargs, decode(outcome["after"]))
        if "raised" in outcome:
            raise exception_named(outcome["raised"])(outcome["message"])
        return decode(outcome["value"])

    _run_check(request, candidate, say)


def together(request: Request, say: Say) -> None:
    """Run a check with the submitted function itself."""
    function = _load(request, say)
    if function is not None:
        _run_check(request, function, say)


def withheld(request: Request, say: Say) -> None:
    """Run a check that notes values instead of asserting them, with the submitted function itself."""
    function = _load(request, say)
    if function is None:
        return

    def note(number: int, value: Any) -> None:
        say(noted=number, value=encode(value))

    _run_check(request, function, say, note)


def exception_named(name: Any) -> type[BaseException]:
    """Return the builtin exception called `name`. Raises `NotPlain` for any other name."""
    kind = vars(builtins).get(name)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise NotPlain("no name of an exception")
    return kind


_OPERATIONS: dict[str, Callable[[Request, Say], None]] = {
    "call": call,
    "record": record,
    "judge": judge,
    "together": together,
    "withheld": withheld,
}


def _silence() -> None:
    """Close stdin, and discard all output."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)


def _load(request: Request, say: Say) -> Callable[..., Any] | None:
    """Run the submitted source and return the function it defines; otherwise report the error."""
    module = sys.modules["solution"] = ModuleType("solution")
    try:
        exec(compile(request["prelude"], "<prelude>", "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        say(problem="prelude", message=_described(error))
        return None
    say(prepared=True)
    try:
        program = compile(request["source"], SUBMITTED, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        message = f"{getattr(error, 'msg', error)}{'' if line is None else f' (line {line})'}"
        say(problem="syntax", kind=_builtin_name(error), line=line, message=message)
        return None
    try:
        exec(program, module.__dict__)
    except BaseException as error:
        say(problem="raised", kind=_builtin_name(error), line=_line(error), message=_described(error))
        return None
    function = module.__dict__.get(request["name"])
    if callable(function):
        return function
    say(problem="missing", kind=None, line=None, message="")
    return None


def _outcome(function: Callable[..., Any], arguments: Any, seconds: float) -> dict[str, Any]:
    args, kwargs = decode(arguments)
    _set_timers(seconds)
    try:
        outcome = {"value": encode(function(*args, **kwargs))}
        if len(json.dumps(outcome)) > MAX_VALUE_CHARS:
            raise NotPlain(f"a value of more than {MAX_VALUE_CHARS} characters")
    except TooSlow:
        outcome = {"slow": seconds}
    except NotPlain as error:
        outcome = {"unfit": str(error)}
    except BaseException as error:
        outcome = {"raised": _builtin_name(error), "message": _described(error)}
    finally:
        _set_timers(0)
    return outcome | _changes(arguments, args, kwargs)


def _changes(arguments: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments after the call, if the call changed them."""
    try:
        after = encode([args, kwargs])
    except NotPlain:
        return {}
    return {} if after == arguments else {"after": after}


def _change(args: Any, kwargs: Any, after: Any) -> None:
    """Change the arguments in place as the function changed its own."""
    pairs = [(mine, after[0][index]) for index, mine in enumerate(args)]
    for mine, theirs in pairs + [(mine, after[1][name]) for name, mine in kwargs.items()]:
        if type(mine) is list:
            mine[:] = theirs
        elif type(mine) is dict or type(mine) is set:
            mine.clear()
            mine.update(theirs)


def _run_check(
    request: Request, candidate: Callable[..., Any], say: Say, note: Callable[[int, Any], None] | None = None
) -> None:
    # Checks with random arguments get the same ones every time.
    random.seed(0)
    space: dict[str, Any] = {"__name__": "check", NOTE: note}
    try:
        exec(compile(request["prelude"], "<prelude>", "exec", dont_inherit=True), space)
        # Some checks also call the function by its own name.
        space[request["name"]] = candidate
        exec(compile(request["check"], "<check>", "exec", dont_inherit=True), space)
        space["check"](candidate)
    except NotPlain as error:
        say(verdict="unfit", message=str(error))
    except AssertionError as error:
        say(verdict="failed", message=_described(error))
    except BaseException as error:
        say(verdict="broken", message=_described(error))
    else:
        say(verdict="passed", message="")


def _builtin_name(error: BaseException) -> str:
    """Return the name of the nearest builtin exception."""
    return next(kind.__name__ for kind in type(error).__mro__ if vars(builtins).get(kind.__name__) is kind)


def _line(error: BaseException) -> int | None:
    """Return the innermost line of the submitted source in a traceback."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == SUBMITTED:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _described(error: BaseException) -> str:
    """Return an error as one line of text, with its line of the submitted source."""
    line = _line(error)
    try:
        text = f": {error}"[:_MESSAGE_CHARS] if str(error) else ""
    except BaseException:
        text = ""
    return f"{type(error).__name__}{text}{'' if line is None else f' (line {line})'}"


def _set_timers(seconds: float) -> None:
    for number, timer, factor in (
        (signal.SIGPROF, signal.ITIMER_PROF, 1),
        (signal.SIGALRM, signal.ITIMER_REAL, WALL_FACTOR),
    ):
        signal.signal(number, _ring)
        signal.setitimer(timer, seconds * factor)


def _ring(*_: Any) -> None:
    raise TooSlow


if __name__ == "__main__":
    main()
