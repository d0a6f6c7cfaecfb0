"""Loads policies by name for the command line. Policies with weights come from the `[train]` extra."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentgym.choices import nearest
from agentgym.errors import UsageError, require
from agentgym.loading import load_named
from agentgym.policy import ChatPolicy, Policy, RandomPolicy, ScriptedPolicy, SilentPolicy, TokenPolicy
from agentgym.rooms import POLICIES, load

TINY, SMOLLM2 = "tiny", "smollm2"

BUILTIN: dict[str, Callable[[], Policy]] = {
    "scripted": ScriptedPolicy,
    "random": RandomPolicy,
    "silent": SilentPolicy,
}

CHOICES = (
    f"{', '.join(BUILTIN)}, {TINY}, {SMOLLM2}, a folder with a transformers checkpoint, a GGUF file, a model's public "
    "name (org/name), or module:factory"
)

_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PUBLIC_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")


def load_policy(name: str, *, env_id: str, env_kwargs: Mapping[str, Any], **options: Any) -> Policy:
    """Return the policy that `name` names.

    Args:
        name: `scripted`, `random`, `silent`, `tiny`, `smollm2`, a checkpoint's folder or public name, a GGUF file, or
            `module:factory`, which is called without arguments.
        env_id: The environment to play.
        env_kwargs: Arguments of that environment.
        options: For policies with weights: see `agentgym.trainers.policies.load`.

    Raises:
        UsageError: There is no such policy; the message lists the choices.
        MissingExtra: The policy has weights, and the packages to run them are not installed.
    """
    if name in BUILTIN:
        return BUILTIN[name]()
    if _FACTORY.fullmatch(name):
        return _from_factory(name)
    if has_weights(name):
        require("torch", "train")
        return load(POLICIES)(name, env_id=env_id, env_kwargs=dict(env_kwargs), **options)
    near = nearest(name, (*BUILTIN, TINY, SMOLLM2))
    raise UsageError(f"there is no policy {name!r}, nor a folder of that name{near} Give {CHOICES}")


def has_weights(name: str) -> bool:
    """Whether `name` names a model: `tiny`, `smollm2`, a folder or GGUF file that exists, or a public name."""
    if name in BUILTIN or _FACTORY.fullmatch(name):
        return False
    path = Path(name)
    is_here = path.is_dir() or (path.suffix.lower() == ".gguf" and path.is_file())
    return name in (TINY, SMOLLM2) or is_here or _PUBLIC_NAME.fullmatch(name) is not None


def _from_factory(path: str) -> Policy:
    policy = load_named(path, "a policy factory")()
    if isinstance(policy, ScriptedPolicy):
        raise UsageError(f"{path!r} returned a ScriptedPolicy, which is shown each task's gold; run it from Python")
    if not isinstance(policy, ChatPolicy | TokenPolicy):
        raise UsageError(
            f"{path!r} returned a {type(policy).__name__}, which is neither a ChatPolicy nor a TokenPolicy"
        )
    return policy
