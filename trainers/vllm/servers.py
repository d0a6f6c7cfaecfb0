"""Checks vLLM servers before a run: their model, and how they report log-probabilities."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from agentgym.base.errors import UsageError

_TIMEOUT_S = 20.0
_START = "start one with: vllm serve MODEL --logprobs-mode processed_logprobs"


@dataclass(frozen=True)
class Served:
    """The common model of some replicas."""

    url: str
    """The URL of a replica that answers."""
    model: str
    """Their name for the model."""
    context: int | None
    """Longest conversation that all of them allow, in tokens; `None` if unknown."""


def served_by(urls: Sequence[str], model: str = "") -> Served:
    """Return the model of the servers at `urls`. Replicas that do not answer yet may come up during the run.

    Args:
        urls: The URLs of the servers.
        model: The name or folder of the model to use, if a server has several.

    Raises:
        UsageError: No server answers, they serve different models, or a server has several without `model`.
    """
    servers, silent = [], []
    for url in urls:
        try:
            servers.append(_model_at(url, model))
        except (OSError, HTTPException) as error:
            silent.append(f"{url} ({error})")
    if not servers:
        raise UsageError(f"no vLLM server answers at {', '.join(silent)}; {_START}")
    if len({served.model for served in servers}) > 1:
        names = ", ".join(f"{served.model!r}" for served in servers)
        raise UsageError(f"the replicas serve different models: {names}; start all of them with the same one")
    return Served(
        servers[0].url, servers[0].model, min((s.context for s in servers if s.context is not None), default=None)
    )


def refuse_raw_logprobs(url: str, model: str, temperature: float) -> None:
    """Raise `UsageError` if a server reports log-probabilities from before the temperature.

    In that case, the likeliest token's log-probability is the same at every temperature.
    """
    if temperature in (0.0, 1.0):
        return
    try:
        cold, warm = (_likeliest(url, model, at) for at in (1.0, 2.0))
    except UsageError:
        raise
    except (OSError, HTTPException, LookupError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"{url} does not report log-probabilities of sampled tokens: {error!r}; {_START}") from error
    if abs(cold - warm) < 1e-6:
        raise UsageError(
            f"{url} reports the log-probabilities from before the temperature ({temperature:g}), not after "
            "it; start it with --logprobs-mode processed_logprobs"
        )


def headers() -> dict[str, str]:
    """Return the headers of requests: the key in `VLLM_API_KEY`, if any."""
    key = os.environ.get("VLLM_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _model_at(url: str, model: str) -> Served:
    models = _answer(Request(f"{url}/v1/models", headers=headers()))
    try:
        entries = models["data"]
        first = _entry_of(entries, model) or entries[0]
        if any(entry.get("parent") for entry in entries) and not _entry_of(entries, model):
            names = ", ".join(repr(entry["id"]) for entry in entries)
            raise UsageError(
                f"{url} serves a model and adapters, {names}, but not {model!r}; start it with the folder "
                "of --policy: --lora-modules NAME=FOLDER"
            )
        lengths = [entry["max_model_len"] for entry in entries if isinstance(entry.get("max_model_len"), int)]
        return Served(url, str(first["id"]), min(lengths, default=None))
    except (LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"{url} is not a vLLM server: its list of models cannot be read; {_START}") from error


def _entry_of(entries: Sequence[Mapping[str, Any]], model: str) -> Mapping[str, Any] | None:
    """Return the entry of a model, by its name at the server or its folder; `None` without a match."""
    folder = Path(model).resolve()
    return next((entry for entry in entries if model == entry["id"] or folder == _folder_of(entry)), None)


def _folder_of(entry: Mapping[str, Any]) -> Path | None:
    root = entry.get("root")
    return Path(root).resolve() if isinstance(root, str) and root else None


def _likeliest(url: str, model: str, temperature: float) -> float:
    """Return the log-probability of the likeliest next token of some prompt."""
    body = {"model": model, "prompt": [1], "max_tokens": 1, "logprobs": 1, "seed": 0, "temperature": temperature}
    answer = _post(f"{url}/v1/completions", body)
    return max(answer["choices"][0]["logprobs"]["top_logprobs"][0].values())


def _post(url: str, body: dict[str, Any]) -> Any:
    content = json.dumps(body).encode()
    return _answer(Request(url, content, {"Content-Type": "application/json", **headers()}))


def _answer(request: Request) -> Any:
    if not request.full_url.startswith(("http://", "https://")):
        raise UsageError(f"{request.full_url!r} is not an http address")
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as response:
            return json.load(response)
    except HTTPError as error:
        if error.code in (401, 403):
            raise UsageError(f"{request.full_url} refuses the key; set VLLM_API_KEY") from error
        if error.code >= 500:
            raise
        raise UsageError(f"{request.full_url} answers with status {error.code}: {error.read(500)!r}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{request.full_url} does not answer in JSON; {_START}") from error
