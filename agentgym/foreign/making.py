"""Makes environments by id; errors in an author's code become errors that name the argument or the place."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import chain
from typing import Any

from agentgym.choices import nearest
from agentgym.engine.authoring import Authoring
from agentgym.env import Env
from agentgym.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.foreign.errors import describe, place_of
from agentgym.registry import class_of, is_class_path, make, resolve


def full_env_id(env_id: str) -> str:
    """Return the full id of an environment, or `module:Class` as it is."""
    return env_id if is_class_path(env_id) else resolve(env_id)


def make_env(env_id: str, kwargs: Mapping[str, Any]) -> Env:
    """Make an environment.

    Raises:
        UsageError: Its code raised an error (the message names the place), or an argument is missing or unknown.
        InfrastructureError: Its constructor tried to end the process.
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
            values = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
            with_these = f" with {values}" if values else ""
            raise UsageError(f"{env_id!r} cannot be made{with_these}: {describe(error)}{place_of(error)}") from error
        names = _arguments(env_id)
        wrong = next((name for name in kwargs if name not in names), "")
        raise UsageError(
            f"{env_id!r} takes no argument {wrong!r}{nearest(wrong, names)} It takes: {', '.join(sorted(names))}"
        ) from error


def _missing(env_id: str, kwargs: Mapping[str, Any], error: Exception) -> list[str]:
    """Return the required arguments that are missing, if that is why making the environment failed."""
    if not (isinstance(error, TypeError) and "required" in str(error)):
        return []
    parameters = list(inspect.signature(class_of(env_id).__init__).parameters.values())[1:]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [item.name for item in parameters if item.default is item.empty and item.kind not in variable]
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
