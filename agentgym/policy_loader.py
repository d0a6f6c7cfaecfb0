"""Policies by name, for the command line: those without weights here, those with weights from the `[train]` extra."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from agentgym.choices import nearest
from agentgym.errors import UsageError, require
from agentgym.policy import ChatPolicy, Policy, RandomPolicy, ScriptedPolicy, SilentPolicy, TokenPolicy

TINY = "tiny"

BUILTIN: dict[str, Callable[[], ChatPolicy]] = {
    "scripted": ScriptedPolicy,
    "random": RandomPolicy,
    "silent": SilentPolicy,
}

CHOICES = (
    f"{', '.join(BUILTIN)}, {TINY}, a folder with a transformers checkpoint, a model's public name (org/name), "
    "or module:factory"
)

_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PUBLIC_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")


def load_policy(name: str, *, env_id: str, env_kwargs: Mapping[str, Any], **options: Any) -> Policy:
    """Return the policy that `name` stands for.

    Args:
        name: `scripted`, `random`, `silent`, `tiny`, a checkpoint's folder or public name, or `module:factory`, which
            is called without arguments.
        env_id: The environment that it will play.
        env_kwargs: Arguments of that environment.
        options: For policies with weights: see `agentgym.trainers.policies.load`.

    Raises:
        UsageError: There is no such policy; the message says what there is.
        MissingExtra: It has weights, and what runs them is not installed.
    """
    if name in BUILTIN:
        return BUILTIN[name]()
    if _FACTORY.fullmatch(name):
        return _from_factory(name)
    if has_weights(name):
        require("torch", "train")
        load = import_module("agentgym.trainers.policies").load
        return load(name, env_id=env_id, env_kwargs=dict(env_kwargs), **options)
    raise UsageError(
        f"there is no policy {name!r}, nor a folder of that name{nearest(name, (*BUILTIN, TINY))} Give {CHOICES}"
    )


def has_weights(name: str) -> bool:
    """Whether `name` stands for a model: `tiny`, a folder that exists, or a public name."""
    if name in BUILTIN or _FACTORY.fullmatch(name):
        return False
    return name == TINY or Path(name).is_dir() or _PUBLIC_NAME.fullmatch(name) is not None


def _from_factory(path: str) -> Policy:
    module_name, _, attribute = path.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise UsageError(f"there is no module {module_name!r} (from policy {path!r})") from error
        raise
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise UsageError(f"module {module_name!r} has no callable {attribute!r} (from policy {path!r})")
    policy = factory()
    if not isinstance(policy, ChatPolicy | TokenPolicy):
        raise UsageError(
            f"{path!r} returned a {type(policy).__name__}, which is neither a ChatPolicy nor a TokenPolicy"
        )
    return policy
