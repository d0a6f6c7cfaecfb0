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

from agentgym import yaml12
from agentgym.choices import nearest
from agentgym.errors import UsageError
from agentgym.settings import name_of, parse_settings

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
    """Tokens of the prompt that the endpoint had cached; by default as dear as the others."""


@validated(config=_STRICT, frozen=True, kw_only=True)
class EndpointSettings:
    """How an endpoint is asked. What is `None` is not sent, or not limited."""

    # Sampling
    temperature: _NotNegative | None = None
    """Sampling temperature."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Nucleus sampling."""
    max_tokens: _CountFrom1 | None = None
    """Maximum sampled tokens per turn."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The name under which the endpoint takes that maximum."""
    stop: str | list[str] | None = None
    """Texts that end a turn."""
    send_seed: bool = False
    """Send a `seed` that follows from the episode's and the turn, so that attempts and turns differ."""
    extra_body: dict[str, Any] = field(default_factory=dict)
    """More fields of each request, e.g. {top_k: 20}."""

    # Conversation
    forbid_parallel_calls: bool = True
    """Send `parallel_tool_calls: false` where the environment allows one call in a turn."""
    pictures: bool = False
    """Whether the model can see; otherwise a line says where a picture was shown."""
    reasoning: Literal["drop", "keep"] = "drop"
    """Whether a turn's reasoning is sent back in later turns, in the field in which it came or as `<think>` in its
    text. It is recorded either way."""
    system: Literal["system", "developer", "user"] = "system"
    """The role of system messages. With `user`, they stand at the head of the first user message, for chat templates
    that refuse them."""
    results: Literal["user", "tool"] = "user"
    """The role of results, where the model writes its calls as text. Every server takes `user`; `tool` leaves it to the
    chat template, as in training here."""

    # Connection
    key: str = "OPENAI_API_KEY"
    """Environment variable that holds the API key; without it, no key is sent."""
    headers: dict[str, str] = field(default_factory=dict)
    """More HTTP headers."""
    timeout_s: _Positive = 120.0
    """Wall-clock limit for one request."""
    connect_timeout_s: _Positive = 10.0
    """Wall-clock limit for connecting."""
    retries: _Count = 5
    """How often a request is repeated after a failure that may pass: 429, 5xx, a timeout, an unreadable answer. A rate
    limit (429) is waited for longer: until nothing has been answered for `longest_wait_s`."""
    first_wait_s: _NotNegative = 0.5
    """Wait before the first repetition; it doubles each time, with jitter. `Retry-After` is respected."""
    longest_wait_s: _Positive = 60.0
    """Longest wait before a repetition; an endpoint that asks for more has failed."""

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
    """Stop the run when this much is spent. Requests under way are broken off, and may be paid as well."""
    budget_tokens: _Count | None = None
    """Stop the run when this many tokens are used."""
    cache: str | None = None
    """A folder that keeps answers: the same request in the same attempt of a task is not sent again."""


NAMES = tuple(field.name for field in dataclasses.fields(EndpointSettings))
"""The names of all settings."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADAPTER: TypeAdapter[EndpointSettings] = TypeAdapter(EndpointSettings)


def read_settings(words: Sequence[str], defaults: Mapping[str, Any]) -> EndpointSettings:
    """Return the settings that the words of `--endpoint` give: `KEY=VALUE` or YAML files. Later words win.

    Args:
        words: The words as typed.
        defaults: Values of settings that are not given.

    Raises:
        UsageError: A setting is unknown or has no valid value, or a file cannot be read.
    """
    settings: dict[str, Any] = {}
    for word in words:
        settings |= parse_settings([word], "--endpoint") if "=" in word else _read_file(Path(word))
    return checked({**defaults, **settings})


def checked(values: Mapping[str, Any]) -> EndpointSettings:
    """Return settings with these values. Raises `UsageError` for one that is unknown or not valid."""
    for name in values:
        if name not in NAMES:
            raise UsageError(f"an endpoint has no setting {name!r}{nearest(name, NAMES)} There are: {', '.join(NAMES)}")
    if not _VARIABLE.fullmatch(str(values.get("key", "KEY"))):  # not quoted: it may be the key itself
        raise UsageError(
            "the endpoint setting key is the name of the environment variable that holds the API key, such as "
            "OPENAI_API_KEY, and never the key itself"
        )
    extra = values.get("extra_body")
    if isinstance(extra, Mapping) and extra.get("stream"):
        raise UsageError("the endpoint setting extra_body cannot have stream: answers are read whole; leave it out")
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
        raise UsageError(f"--endpoint: {str(path)!r} must hold settings by name")
    return {name_of(str(name)): value for name, value in values.items()}
