"""Environments by id, on Gymnasium's own registry.

Importing this module registers the bundled environments and those of installed packages that declare them in the
entry-point group `agentgym.envs` (`"acme/tickets-v0" = "acme.tickets:TicketsEnv"`); the classes are imported only when
made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import groupby
from types import ModuleType
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym.choices import nearest
from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.registration import register_declared

_MANY = 10
_VERSION = re.compile(r"-v(\d+)$")


def register(env_id: str, entry_point: str | type[Env], **kwargs: Any) -> None:
    """Make an environment known under `env_id` (`[namespace/]name-vN`).

    Args:
        env_id: The id, e.g. `"acme/tickets-v0"`.
        entry_point: `"module:Class"`, imported only when needed, or the class itself.
        kwargs: Arguments that `make` passes to the class unless told otherwise.
    """
    gymnasium.register(env_id, entry_point=cast(Any, entry_point), kwargs=kwargs)


def make(env_id: str, **kwargs: Any) -> Env:
    """Make an environment without wrappers.

    Args:
        env_id: An id (`"agentgym/sql-v0"`), its short form (`"sql"`), or `"module:Class"`.
        kwargs: Passed to the environment's class.

    Raises:
        UsageError: There is no such environment; the message says which there are.
    """
    if is_class_path(env_id):
        return load_class(env_id)(**kwargs)
    env = gymnasium.make(resolve(env_id), disable_env_checker=True, **kwargs).unwrapped
    if not isinstance(env, Env):
        raise UsageError(f"{env_id!r} is a {type(env).__name__}, not an agentgym.Env; use gymnasium.make for it")
    return env


def resolve(env_id: str) -> str:
    """Return the full id that `env_id` stands for. Raises `UsageError` with a suggestion if there is none."""
    if env_id in gymnasium.registry:
        return env_id
    candidates = [known for known in gymnasium.registry if env_id in _short_forms(known)]
    if not candidates:
        names = list_environments()
        forms = {form: known for known in names for form in _short_forms(known)}
        raise UsageError(
            f"unknown environment {env_id!r}{nearest(env_id, forms)} There are: {', '.join(_in_brief(names))}"
        )
    return max(candidates, key=lambda known: gymnasium.registry[known].version or 0)


def _in_brief(names: Sequence[str]) -> list[str]:
    """Return ids, with a single entry for families of many: those whose names begin alike."""
    families = {family: list(some) for family, some in groupby(names, lambda name: name.partition("-")[0])}
    return [
        name
        for family, some in families.items()
        for name in (some if len(some) < _MANY else [f"{family}-* ({len(some)}: agentgym list)"])
    ]


def list_environments() -> tuple[str, ...]:
    """Ids of all registered environments that are `agentgym.Env`s, as far as can be told without importing them."""
    return tuple(sorted(known for known, spec in gymnasium.registry.items() if _may_be_ours(spec)))


def load_class(path: str) -> type[Env]:
    """Import the environment class that `"module:Class"` names. Import errors come through as they are."""
    module_name, _, class_name = path.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise UsageError(
                f"there is no module {module_name!r} (from {path!r}); is it on the Python path?"
            ) from error
        raise
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Env)):
        raise UsageError(f"{path!r} does not name an agentgym.Env class{_classes_like(class_name, module)}")
    return found


def _classes_like(name: str, module: ModuleType) -> str:
    """Return which environment classes a module has, the nearest name first."""
    known = [
        one
        for one, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Env) and value.__module__ == module.__name__
    ]
    close = get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {module.__name__}:{close[0]}?"
    return f"; {module.__name__} has {', '.join(known)}" if known else f", and {module.__name__} has none"


def class_of(env_id: str) -> type[Env]:
    """Return the class of an environment without making one; `Env` where an id stands for a function that makes it."""
    if is_class_path(env_id):
        return load_class(env_id)
    target = gymnasium.spec(resolve(env_id)).entry_point
    if isinstance(target, str):
        module, _, name = target.partition(":")
        target = getattr(import_module(module), name, None)
    return target if isinstance(target, type) and issubclass(target, Env) else Env


def is_class_path(env_id: str) -> bool:
    """Whether `env_id` is of the form `"module:Class"`."""
    return ":" in env_id and not _VERSION.search(env_id)


def _short_forms(env_id: str) -> set[str]:
    """Names by which an id may be called: without its version, and ours without their namespace."""
    unversioned = _VERSION.sub("", env_id)
    forms = {env_id, unversioned}
    if env_id.startswith("agentgym/"):
        forms |= {form.removeprefix("agentgym/") for form in (env_id, unversioned)}
    return forms


def _may_be_ours(spec: EnvSpec) -> bool:
    if spec.id in _declared:
        return True
    return isinstance(spec.entry_point, type) and issubclass(spec.entry_point, Env)


_declared = register_declared()
