"""Loads policies by name for the command line. Policies with weights come from the `[train]` extra."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.base.choices import nearest
from agentgym.base.components import ENDPOINT, POLICIES, VLLM
from agentgym.base.errors import AgentGymError, UsageError, require
from agentgym.base.loading import load_named
from agentgym.core.foreign import describe, place_of
from agentgym.core.policy import ChatPolicy, Policy, RandomPolicy, ScriptedPolicy, SilentPolicy, TokenPolicy

TINY, SMOLLM2 = "tiny", "smollm2"
_ENDPOINT = "openai:"
_VLLM = "vllm:"


def _human() -> ChatPolicy:
    from agentgym.eval.human import HumanPolicy

    return HumanPolicy.at_terminal()


BUILTIN: dict[str, Callable[[], Policy]] = {
    "scripted": ScriptedPolicy,
    "random": RandomPolicy,
    "silent": SilentPolicy,
    "human": _human,
}

CHOICES = (
    f"{', '.join(BUILTIN)}, {TINY}, {SMOLLM2}, a folder with a transformers checkpoint, a GGUF file, a model's public "
    "name (org/name), vllm:MODEL, vllm:MODEL@URL, openai:MODEL[@URL], or module:factory"
)

_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PUBLIC_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")


def load_policy(
    name: str,
    *,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    endpoint: Sequence[str] = (),
    max_new_tokens: int | None = None,
    **options: Any,
) -> Policy:
    """Return the policy called `name`.

    Args:
        name: `scripted`, `random`, `silent`, `human`, `tiny`, `smollm2`, a checkpoint's folder or public name, a GGUF
            file, `vllm:MODEL` (any of these models, sampled with vLLM), `vllm:MODEL@URL[,URL]` (sampled by vLLM
            servers), `openai:MODEL@URL` (behind a chat endpoint; without a URL, the one in `OPENAI_BASE_URL`), or
            `module:factory`, which is called without arguments.
        env_id: The environment to play.
        env_kwargs: Arguments of that environment.
        endpoint: Settings of an endpoint: `KEY=VALUE` or YAML files.
        max_new_tokens: Maximum sampled tokens per turn for an endpoint, unless a setting overrides it.
        options: For policies with weights: see `agentgym.trainers.policies.load`.

    Raises:
        UsageError: The policy does not exist; the message lists the choices.
        MissingExtra: The policy has weights, and the packages to run them are not installed.
    """
    if is_endpoint(name):
        defaults = {"max_tokens": max_new_tokens, "temperature": options.get("temperature")}
        return load_named(ENDPOINT, "a function")(name, endpoint, defaults)
    if endpoint:
        raise UsageError(f"--endpoint is for policies openai:MODEL@URL, not for {name!r}")
    if name in BUILTIN:
        return BUILTIN[name]()
    if _is_factory(name):
        return _from_factory(name)
    if has_weights(name):
        require("torch", "train")
        where = VLLM if name.startswith(_VLLM) else POLICIES
        return load_named(where, "a function")(name, env_id=env_id, env_kwargs=dict(env_kwargs), **options)
    if name.startswith(_VLLM):
        raise UsageError(
            f"vLLM finds no model {model_of(name)!r}: give a folder, a GGUF file, or a public name (org/name)"
        )
    near = nearest(name, (*BUILTIN, TINY, SMOLLM2))
    raise UsageError(f"unknown policy {name!r}, and no folder has that name{near} Choose {CHOICES}")


def is_endpoint(name: str) -> bool:
    """Whether `name` names a model behind a chat endpoint."""
    return name.startswith(_ENDPOINT)


def has_weights(name: str) -> bool:
    """Whether `name` names a model: `tiny`, `smollm2`, a folder or GGUF file that exists, or a public name.

    A prefix `vllm:` is allowed.
    """
    if name in BUILTIN or is_endpoint(name) or _is_factory(name):
        return False
    model = model_of(name)
    path = Path(model)
    is_here = path.is_dir() or (path.suffix.lower() == ".gguf" and path.is_file())
    return model in (TINY, SMOLLM2) or is_here or _PUBLIC_NAME.fullmatch(model) is not None


def modules_for(name: str) -> list[tuple[str, str]]:
    """Return the modules that a policy needs beyond the base requirements, each with the extra that installs it."""
    if is_endpoint(name):
        return [("aiohttp", "endpoint")]
    if not has_weights(name):
        return []
    with_vllm = [("aiohttp", "endpoint") if split_vllm(name)[1] else ("vllm", "vllm")] if name.startswith(_VLLM) else []
    return [("torch", "train"), *with_vllm]


def model_of(name: str) -> str:
    """Return the model in a policy's name, without the sampling backend."""
    return split_vllm(name)[0]


def split_vllm(name: str) -> tuple[str, list[str]]:
    """Return the model in `vllm:MODEL@URL[,URL]`, and the addresses of its servers without `/v1`, if any."""
    if not name.startswith(_VLLM):
        return name, []
    model, at, urls = name.removeprefix(_VLLM).partition("@http")
    addresses = [url.strip().rstrip("/").removesuffix("/v1") for url in f"http{urls}".split(",")] if at else []
    return model, addresses


def _is_factory(name: str) -> bool:
    return _FACTORY.fullmatch(name) is not None and not name.startswith((_VLLM, _ENDPOINT))


def _from_factory(path: str) -> Policy:
    try:
        policy = load_named(path, "a policy factory")()
    except AgentGymError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"the policy {path!r} cannot be made: {describe(error)}{place_of(error)}") from error
    if isinstance(policy, ScriptedPolicy):
        raise UsageError(f"{path!r} returned a ScriptedPolicy, which is shown each task's gold; run it from Python")
    if not isinstance(policy, ChatPolicy | TokenPolicy):
        raise UsageError(
            f"{path!r} returned a {type(policy).__name__}, which is neither a ChatPolicy nor a TokenPolicy"
        )
    if not isinstance(policy.name, str):
        raise UsageError(f"{path!r} returned a policy whose name is no text, but {policy.name!r:.100}")
    return policy
