"""Environments by id, in Gymnasium's own registry.

Importing this module registers the bundled environments and those of installed packages that declare them in the
entry-point group `agentgym.envs` (`"acme/tickets-v0" = "acme.tickets:TicketsEnv"`). A class is imported only when
an environment is made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError
from agentgym.base.loading import load_named
from agentgym.core.env import Env
from agentgym.core.registration import register_declared

_MANY = 10
_VERSION = re.compile(r"-v(\d+)$")


def register(env_id: str, entry_point: str | type[Env], **kwargs: Any) -> None:
    """Register an environment under `env_id` (`[namespace/]name-vN`).

    Args:
        env_id: The id, e.g. `"acme/tickets-v0"`.
        entry_point: `"module:Class"`, imported only when needed, or the class itself.
        kwargs: Default arguments that `make` passes to the class.
    """
    gymnasium.register(env_id, entry_point=cast(Any, entry_point), kwargs=kwargs)


def make(env_id: str, **kwargs: Any) -> Env:
    """Make an environment without wrappers.

    Args:
        env_id: An id (`"agentgym/sql-v0"`), its short form (`"sql"`), or `"module:Class"`.
        kwargs: Passed to the environment's class.

    Raises:
        UsageError: The environment does not exist; the message lists the available ones.
    """
    if is_class_path(env_id):
        return load_class(env_id)(**kwargs)
    env = gymnasium.make(resolve(env_id), disable_env_checker=True, **kwargs).unwrapped
    if not isinstance(env, Env):
        raise UsageError(f"{env_id!r} is a {type(env).__name__}, not an agentgym.Env; use gymnasium.make for it")
    return env


def resolve(env_id: str) -> str:
    """Return the full id for `env_id`. Raises `UsageError` with a suggestion for an unknown id."""
    if env_id in gymnasium.registry:
        return env_id
    candidates = [registered_id for registered_id in gymnasium.registry if env_id in _short_forms(registered_id)]
    if not candidates:
        names = list_environments()
        forms = {form: full_id for full_id in names for form in _short_forms(full_id)}
        raise UsageError(
            f"unknown environment {env_id!r}{nearest(env_id, forms)} There are: {', '.join(_in_brief(names))}; "
            "a class of your own is named module:Class"
        )
    return max(candidates, key=lambda full_id: gymnasium.registry[full_id].version or 0)


def _in_brief(names: Sequence[str]) -> list[str]:
    """Return ids, collapsing each large family (ids with a common prefix) into one entry."""
    families = {family: list(members) for family, members in groupby(names, lambda name: name.partition("-")[0])}
    return [
        name
        for family, members in families.items()
        for name in (members if len(members) < _MANY else [f"{family}-* ({len(members)}: agentgym list)"])
    ]


def list_environments() -> tuple[str, ...]:
    """Return the ids of all registered `agentgym.Env`s that can be recognised without importing them."""
    return tuple(sorted(env_id for env_id, spec in gymnasium.registry.items() if _may_be_ours(spec)))


def load_class(path: str) -> type[Env]:
    """Import the environment class that `"module:Class"` names. Import errors are passed on unchanged."""
    return load_named(path, "an agentgym.Env class", _is_env_class)


def _is_env_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Env)


def class_of(env_id: str) -> type[Env]:
    """Return the class of an environment without making one; `Env` if the id names a factory function."""
    if is_class_path(env_id):
        return load_class(env_id)
    target = gymnasium.spec(resolve(env_id)).entry_point
    if isinstance(target, str):
        target = load_named(target, "an environment")
    return cast("type[Env]", target) if _is_env_class(target) else Env


def is_class_path(env_id: str) -> bool:
    """Whether `env_id` has the form `"module:Class"`."""
    return ":" in env_id and not _VERSION.search(env_id)


def _short_forms(env_id: str) -> set[str]:
    """Return the short names of an id: without its version, and for ours also without the namespace."""
    unversioned = _VERSION.sub("", env_id)
    forms = {env_id, unversioned}
    if env_id.startswith("agentgym/"):
        forms |= {form.removeprefix("agentgym/") for form in (env_id, unversioned)}
    return forms


def _may_be_ours(spec: EnvSpec) -> bool:
    if spec.id in _declared:
        return True
    return _is_env_class(spec.entry_point)


_declared = register_declared()
