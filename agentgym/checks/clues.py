"""Find where an environment's code reads clocks or randomness and which state it shares, to name causes in messages.

Used only after an episode was found to vary. Depends on no check.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from agentgym.env import Env
from agentgym.rooms import ROOMS

_CLOCK = frozenset({"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime", "strftime", "ctime", "asctime"})
_TIMERS = frozenset({"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"})
_CHANCE = frozenset({"urandom", "getrandom", "uuid1", "uuid4", "token_hex", "token_bytes", "token_urlsafe", "randbits"})
_CLOCK_OWNERS = frozenset({"time", "time_machine", "datetime", "date"})
_REPR_CHARS = 20_000

_LIBRARY = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass
class Clues:
    """Lines of an environment's code, in the form `file.py:12 calls time.time()`."""

    clock: list[str] = field(default_factory=list)
    """Lines that read the date or the time of day."""
    chance: list[str] = field(default_factory=list)
    """Lines that draw from the system's randomness or read a timer."""


def clues_while(work: Callable[[], object]) -> Clues:
    """Return the reads of clocks and randomness while `work` runs in this thread."""
    clues = Clues()

    def listen(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            _note(clues, frame, argument.__name__, _owner(argument))
        elif event == "call" and frame.f_back is not None and frame.f_code.co_name in _CLOCK | _CHANCE:
            _note(clues, frame.f_back, frame.f_code.co_name, frame.f_globals.get("__name__", ""))

    sys.setprofile(listen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return clues


def _owner(function: Any) -> str:
    """Return the name of the module or type that owns a built-in function."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type | ModuleType):
        return owner.__name__.rpartition(".")[2]
    return str(getattr(function, "__module__", None) or "")


def _note(clues: Clues, frame: FrameType, name: str, owner: str) -> None:
    if name in _CLOCK and owner.split(".")[0] in _CLOCK_OWNERS:
        lines = clues.clock
    elif name in _CHANCE or name in _TIMERS:
        lines = clues.chance
    else:
        return
    place = _own_line(frame)
    if place is not None and (line := f"{place} calls {name}()") not in lines:
        lines.append(line)


def _own_line(frame: FrameType | None) -> str | None:
    """Return the innermost line of the environment's own code, skipping library frames, or `None`."""
    while frame is not None:
        path, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
        of_core = module.startswith("agentgym") and not module.startswith(ROOMS)
        if of_core or module == "__main__":
            return None
        is_library = path.startswith(_LIBRARY) and not module.startswith(ROOMS)
        if not is_library and not path.startswith("<"):
            return f"{Path(path).name}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def class_state(kind: type[Env]) -> dict[str, str]:
    """Return the state held by an environment's classes and their modules: each value's repr by name."""
    state: dict[str, str] = {}
    own = kind.__mro__[: kind.__mro__.index(Env)]
    for cls in own:
        state |= {
            f"{cls.__name__}.{name}": _safe_repr(value) for name, value in vars(cls).items() if _is_state(name, value)
        }
    for name in {cls.__module__ for cls in own}:
        module = sys.modules.get(name)
        held: Mapping[str, Any] = vars(module) if module is not None else {}
        state |= {f"{name}.{key}": _safe_repr(value) for key, value in held.items() if _is_state(key, value)}
    return state


def _is_state(name: str, value: Any) -> bool:
    return not (name.startswith("__") or isinstance(value, type | ModuleType) or callable(value))


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)[:_REPR_CHARS]
    except Exception:  # a repr is the author's code
        return "?"
