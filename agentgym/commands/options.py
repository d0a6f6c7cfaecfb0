"""Converts command-line options to environments and tasks, with clear errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym.choices import named, nearest
from agentgym.engine.authoring import Authoring
from agentgym.env import Env
from agentgym.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.foreign.errors import as_usage_error, describe, place_of
from agentgym.registry import class_of, is_class_path, make, resolve
from agentgym.settings import parse_settings
from agentgym.task import Task, check_split, iterate, read_manifest

_TIMEOUTS = {name: f"{name}_timeout_s" for name in ("generation", "reset", "step", "tool", "episode")}

ENDLESS_LIMIT = 100
"""Default number of tasks from an endless split."""


def full_env_id(env_id: str) -> str:
    """Return the full id of an environment, or `module:Class` as it is."""
    return env_id if is_class_path(env_id) else resolve(env_id)


def make_env(env_id: str, kwargs: Mapping[str, Any]) -> Env:
    """Make an environment.

    Raises:
        UsageError: Its code raised an error, whose place is named, or it takes no such argument.
        InfrastructureError: Its constructor would have ended the process.
    """
    try:
        return make(env_id, **kwargs)
    except (SystemExit, GeneratorExit) as error:  # from its constructor, not from the user
        raise InfrastructureError(f"{env_id!r} cannot be made: {describe(error)}") from error
    except AgentGymError:
        raise
    except Exception as error:
        if missing := _missing(env_id, kwargs, error):
            how = " ".join(f"--set {name}=VALUE" for name in missing)
            raise UsageError(f"{env_id!r} cannot be made without {' and '.join(missing)}: pass {how}") from error
        if not (isinstance(error, TypeError) and "unexpected keyword argument" in str(error)):
            given = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
            with_these = f" with {given}" if given else ""
            raise UsageError(f"{env_id!r} cannot be made{with_these}: {describe(error)}{place_of(error)}") from error
        known = _arguments(env_id)
        wrong = next((name for name in kwargs if name not in known), "")
        raise UsageError(
            f"{env_id!r} takes no argument {wrong!r}{nearest(wrong, known)} It takes: {', '.join(sorted(known))}"
        ) from error


def with_strict(env_id: str, kwargs: Mapping[str, Any], strict: bool) -> dict[str, Any]:
    """Return the arguments, with `strict=True` added if wanted and if the environment takes it."""
    takes = strict and "strict" in arguments_of(class_of(env_id))
    return {**kwargs, "strict": True} if takes else dict(kwargs)


def timeouts_in(pairs: Iterable[str]) -> dict[str, Any]:
    """Return time limits such as `tool=30` as arguments of `Limits`.

    Raises:
        UsageError: There is no such limit, or the value is not a number of seconds.
    """
    found: dict[str, Any] = {}
    for name, seconds in parse_settings(pairs, "--timeout").items():
        argument = named("time limit", name, _TIMEOUTS)
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise UsageError(f"--timeout {name} takes a number of seconds, or null for no limit, not {seconds!r}")
        found[argument] = seconds
    return found


def choose_tasks(env: Env, spec: str, limit: int | None = None) -> list[Task]:
    """Return the tasks that `spec` names: a manifest (JSONL file), or a split of the environment's own tasks.

    Args:
        env: The environment that has the tasks.
        spec: A manifest or a split.
        limit: Maximum number of tasks; by default all, or the first 100 of an endless split.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"at least 1 task is needed, not {limit}")
    path = Path(spec)
    if spec not in env.tasks.splits and (path.suffix == ".jsonl" or path.is_file()):
        if not path.is_file():
            raise UsageError(f"there is no manifest {spec!r}; write one with: agentgym tasks ENV --out {spec}")
        source = read_manifest(path)
        return list(chain.from_iterable(iterate(source, split) for split in source.splits))[:limit]
    if env.tasks.size(check_split(env.tasks, spec)) is None and limit is None:
        limit = ENDLESS_LIMIT
    with as_usage_error(f"the tasks of the split {spec!r} cannot be loaded"):
        return list(iterate(env.tasks, spec, limit))


def _missing(env_id: str, kwargs: Mapping[str, Any], error: Exception) -> list[str]:
    """Return the arguments that the environment's class needs and was not given, if that is what `error` says."""
    if not (isinstance(error, TypeError) and "required" in str(error)):
        return []
    parameters = list(inspect.signature(class_of(env_id).__init__).parameters.values())[1:]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each.name for each in parameters if each.default is each.empty and each.kind not in variable]
    return [name for name in needed if name not in kwargs]


def _arguments(env_id: str) -> set[str]:
    """Return the names of the keyword arguments of an environment's class and its bases."""
    kind = class_of(env_id)
    return arguments_of(type(make(env_id)) if kind is Env else kind)


def arguments_of(kind: type[Env]) -> set[str]:
    """Return the names of the arguments that an environment's class takes."""
    parameters = chain.from_iterable(
        inspect.signature(base.__init__).parameters.values()
        for base in kind.__mro__
        if issubclass(base, Authoring) and "__init__" in vars(base)
    )
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = {parameter.name for parameter in parameters if parameter.kind in named} - {"self"}
    return own if kind.files is None else own | kind.files.arguments
