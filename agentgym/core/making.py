"""Make environments from a name and arguments that a user typed, with errors that say what to change; close them."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from math import isfinite
from typing import Any, TypeVar

from agentgym.base.choices import nearest
from agentgym.base.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.core.engine.authoring import Authoring
from agentgym.core.env import Env
from agentgym.core.foreign import describe, ends_work, place_of, running_task
from agentgym.core.registry import class_of, is_class_path, make, resolve
from agentgym.core.task_files import with_defaults


def full_env_id(env_id: str) -> str:
    """Return the full id of an environment, or `module:Class` as it is."""
    return env_id if is_class_path(env_id) else resolve(env_id)


def make_env(env_id: str, kwargs: Mapping[str, Any]) -> Env:
    """Make an environment.

    Raises:
        UsageError: Its constructor raised an error (the message names the line), or has no such argument.
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
            arguments = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
            with_these = f" with {arguments}" if arguments else ""
            raise UsageError(f"{env_id!r} cannot be made{with_these}: {describe(error)}{place_of(error)}") from error
        accepted = _arguments(env_id)
        wrong = next((name for name in kwargs if name not in accepted), "")
        raise UsageError(
            f"{env_id!r} takes no argument {wrong!r}{nearest(wrong, accepted)} It takes: {', '.join(sorted(accepted))}"
        ) from error


def with_strict(env_id: str, kwargs: Mapping[str, Any], strict: bool) -> dict[str, Any]:
    """Return the arguments, with `strict=True` added if requested and if the environment has that argument."""
    takes = strict and "strict" in arguments_of(class_of(env_id))
    return {**kwargs, "strict": True} if takes else dict(kwargs)


def _missing(env_id: str, kwargs: Mapping[str, Any], error: Exception) -> list[str]:
    """Return the required arguments that are missing, if `error` complains about those."""
    if not (isinstance(error, TypeError) and "required" in str(error)):
        return []
    parameters = list(inspect.signature(class_of(env_id).__init__).parameters.values())[1:]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in variable
    ]
    return [name for name in needed if name not in kwargs]


def _arguments(env_id: str) -> set[str]:
    """Return the names of the keyword arguments of an environment's class and its bases."""
    kind = class_of(env_id)
    return arguments_of(type(make(env_id)) if kind is Env else kind)


def arguments_of(kind: type[Env]) -> set[str]:
    """Return the names of the arguments of an environment's class."""
    parameters = chain.from_iterable(
        inspect.signature(base.__init__).parameters.values()
        for base in kind.__mro__
        if issubclass(base, Authoring) and "__init__" in vars(base)
    )
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = {parameter.name for parameter in parameters if parameter.kind in named} - {"self"}
    return own if kind.files is None else own | kind.files.arguments


_NAME = re.compile(r"\w[\w .+-]*")
"""Form of a permitted text: not a path, a URL or `module:Class`."""


def refuse_class(env_id: str, source: str) -> None:
    """Raise `UsageError` if a file names an environment by its class, because that would import the module."""
    if is_class_path(env_id):
        raise UsageError(f"{source} names the class {env_id!r}; if you trust it, say so with --env {env_id}")


def recorded_arguments(
    kind: type[Env], recorded: Mapping[str, Any], user_arguments: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the arguments from a file, overridden by the user's.

    Args:
        kind: Class of the environment that takes them.
        recorded: The arguments in the file.
        user_arguments: The arguments from the user.
        source: Name of the file, for the message.

    Raises:
        UsageError: The file sets an argument that only the user may set.
    """
    for name, value in recorded.items():
        if name not in user_arguments and (problem := why_refused(kind, name, value)):
            raise UsageError(f"{source} {problem}; if you trust it, say so with --set {name}=...")
    return with_defaults(kind.files, recorded, user_arguments, source)


def why_refused(kind: type[Env], name: str, value: Any) -> str | None:
    """Return the problem with an argument from an untrusted source, as the end of a sentence, or `None`."""
    if name not in kind.harmless_arguments:
        return f"sets {name!r}, which may name code or a place, or weaken a sandbox"
    try:
        is_plain = _is_plain(value)
    except RecursionError:
        is_plain = False
    if not is_plain:
        return f"sets {name!r} to something other than plain names and numbers"
    if name == "scheme" and value is not None and kind.choose_scheme(value).allow_unsound:
        return f"asks for the unsound scheme {value!r}"
    return None


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return _NAME.fullmatch(value) is not None
    if isinstance(value, Mapping):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or (isinstance(value, int | float) and isfinite(value))


_E = TypeVar("_E", bound="Env")
_log = logging.getLogger(__name__)


@contextmanager
def closed_after(env: _E) -> Iterator[_E]:
    """Context manager: yield an environment and close it."""
    try:
        yield env
    finally:
        close(env)


def close(env: Env) -> None:
    """Close an environment."""
    with closing_errors_logged(env):
        env.close()


@contextmanager
def closing_errors_logged(env: Env) -> Iterator[None]:
    """Log exceptions raised in the block, unless the caller ends the work."""
    try:
        yield
    except BaseException as error:
        if ends_work(error, running_task()):
            raise
        _log.warning("a %s could not be closed: %s", type(env).__name__, describe(error))
