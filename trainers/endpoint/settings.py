"""The settings of an endpoint policy: sampling, limits, prices. `--endpoint KEY=VALUE` sets them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated

from agentgym.base import yaml12
from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError
from agentgym.base.settings import name_of, parse_settings

_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]
_CountFrom1 = Annotated[int, Field(ge=1)]
_STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@validated(config=_STRICT, frozen=True, kw_only=True)
class Price:
    """The price of a model's tokens, per million, in any currency."""

    input: _NotNegative
    """Tokens of the prompt."""
    output: _NotNegative
    """Sampled tokens."""
    cached_input: _NotNegative | None = None
    """Cached tokens of the prompt; by default the same as `input`."""


@validated(config=_STRICT, frozen=True, kw_only=True)
class EndpointSettings:
    """Settings of an endpoint. `None` means not sent, or no limit."""

    # Sampling
    temperature: _NotNegative | None = None
    """Sampling temperature."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Nucleus sampling."""
    max_tokens: _CountFrom1 | None = None
    """Maximum sampled tokens per turn."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The endpoint's name for that maximum."""
    stop: str | list[str] | None = None
    """Stop sequences."""
    send_seed: bool = False
    """Send a `seed` derived from the episode's seed and the turn, so that attempts and turns differ."""
    extra_body: dict[str, Any] = field(default_factory=dict)
    """Additional fields of each request, e.g. {top_k: 20}."""

    # Conversation
    forbid_parallel_calls: bool = True
    """Send `parallel_tool_calls: false` if the environment allows one call per turn."""
    pictures: bool = False
    """Whether the model accepts pictures; otherwise a line of text stands for each picture."""
    reasoning: Literal["drop", "keep"] = "drop"
    """Whether to send a turn's reasoning back in later turns, in its original field or as `<think>` in the text. It is
    recorded either way."""
    system: Literal["system", "developer", "user"] = "system"
    """The role of system messages. `user` prepends them to the first user message, for templates that reject them."""
    results: Literal["user", "tool"] = "user"
    """The role of tool results if the model writes its calls as text. Every server accepts `user`; `tool` leaves the
    wording to the chat template, as in training."""

    # Connection
    key: str = "OPENAI_API_KEY"
    """Environment variable that holds the API key; without it, no key is sent."""
    headers: dict[str, str] = field(default_factory=dict)
    """Additional HTTP headers."""
    timeout_s: _Positive = 120.0
    """Wall-clock limit for one request."""
    connect_timeout_s: _Positive = 10.0
    """Wall-clock limit for connecting."""
    retries: _Count = 5
    """Retries after a temporary failure: 429, 5xx, a timeout, an unreadable answer. A rate limit (429) is retried for
    longer: until no request has been answered for `longest_wait_s`."""
    first_wait_s: _NotNegative = 0.5
    """Wait before the first retry; it doubles each time, with jitter. `Retry-After` is respected."""
    longest_wait_s: _Positive = 60.0
    """Longest wait before a retry; an endpoint that asks for more has failed."""

    # Limits
    concurrency: _CountFrom1 | None = None
    """Maximum concurrent requests."""
    requests_per_minute: _Positive | None = None
    """Maximum rate of requests."""
    tokens_per_minute: _Positive | None = None
    """Maximum rate of tokens, prompt and completion together."""

    # Costs
    prices: dict[str, Price] = field(default_factory=dict)
    """Prices by model, e.g. {my-model: {input: 0.5, output: 2}}."""
    budget: _NotNegative | None = None
    """Stop the run when this much is spent. Requests in flight are cancelled, and may still be charged."""
    budget_tokens: _Count | None = None
    """Stop the run when this many tokens are used."""
    cache: str | None = None
    """A folder that caches answers: the same request in the same attempt at a task is not sent again."""


NAMES = tuple(field.name for field in dataclasses.fields(EndpointSettings))
"""The names of all settings."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADAPTER: TypeAdapter[EndpointSettings] = TypeAdapter(EndpointSettings)


def read_settings(words: Sequence[str], defaults: Mapping[str, Any]) -> EndpointSettings:
    """Return the settings from the values of `--endpoint`: `KEY=VALUE` or YAML files. Later ones win.

    Args:
        words: The values as typed.
        defaults: Settings that `words` override.

    Raises:
        UsageError: A setting is unknown or has no valid value, or a file cannot be read.
    """
    settings: dict[str, Any] = {}
    for word in words:
        settings |= parse_settings([word], "--endpoint") if "=" in word else _read_file(Path(word))
    return checked({**defaults, **settings})


def checked(values: Mapping[str, Any]) -> EndpointSettings:
    """Return settings with these values. Raises `UsageError` for an unknown setting or an invalid value."""
    for name in values:
        if name not in NAMES:
            raise UsageError(
                f"unknown endpoint setting {name!r}{nearest(name, NAMES)} The settings are: {', '.join(NAMES)}"
            )
    if not _VARIABLE.fullmatch(str(values.get("key", "KEY"))):  # not quoted: it may be the key itself
        raise UsageError(
            "the endpoint setting key is the name of the environment variable that holds the API key, such as "
            "OPENAI_API_KEY, and never the key itself"
        )
    extra = values.get("extra_body")
    if isinstance(extra, Mapping) and extra.get("stream"):
        raise UsageError(
            "the endpoint setting extra_body cannot contain stream: answers are not streamed; leave it out"
        )
    try:
        return _ADAPTER.validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        value = "" if first["loc"][0] == "headers" else f", not {first['input']!r}"  # it may hold a key
        raise UsageError(f"the endpoint setting {where} is not valid: {first['msg']}{value}") from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = yaml12.read(path, "the file")
    except UsageError as error:
        raise UsageError(f"--endpoint takes KEY=VALUE or a YAML file: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"--endpoint: {str(path)!r} must map settings to values")
    return {name_of(str(name)): value for name, value in values.items()}
