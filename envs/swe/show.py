"""How runs look to a policy: few tokens, and nothing that varies between runs."""

from __future__ import annotations

from agentgym.tools.printed import steady
from agentgym.tools.sandbox import Ended, Result

_LIMITS = {
    Ended.TIMEOUT: "It took too long and was stopped.",
    Ended.CPU: "It used too much CPU time and was stopped.",
    Ended.MEMORY: "It used too much memory and was stopped.",
    Ended.PROCESSES: "It started too many processes and was stopped.",
    Ended.OUTPUT: "It printed too much and was stopped.",
    Ended.FILE_SIZE: "It wrote too large a file and was stopped.",
    Ended.DISK: "It filled the disk and was stopped.",
    Ended.FILES: "It created too many files and was stopped.",
}


def show_run(result: Result) -> str:
    """Return what a command printed and how it ended."""
    printed = "\n".join(part for part in (result.out.rstrip(), result.err.rstrip()) if part)
    return "\n".join(part for part in (steady(printed), _ending(result)) if part)


def show_tests(result: Result) -> str:
    """Return what pytest printed, without durations."""
    return show_run(result) or "No output."


def _ending(result: Result) -> str:
    if result.ended is Ended.EXITED:
        return "" if result.exit_code == 0 else f"(exit code {result.exit_code})"
    if result.ended is Ended.SIGNALED:
        return f"(killed by signal {result.signal})"
    return f"({_LIMITS.get(result.ended, 'It was stopped.')})"
