"""Validates a client's request for a sandbox; errors are the client's mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym.errors import UsageError
from agentgym.tools.sandbox import answers
from agentgym.tools.sandbox.limits import SandboxLimits
from agentgym.tools.sandbox.spec import SandboxSpec

_WORKDIR = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9._-]{0,63}){1,8}")
_SYSTEM = frozenset(("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr"))
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")
_MAX_VARIABLES = 256
_MAX_VARIABLES_CHARS = 100_000


class _SandboxRequest(BaseModel):
    """The template is sent later, in frames. Only the server chooses modules to preload."""

    model_config = ConfigDict(extra="forbid", strict=True)

    limits: dict[str, int | float] = {}
    image: str | None = None
    workdir: str = "/work"
    environment: dict[str, str] = {}


def parse_spec(content: Mapping[str, Any], most: SandboxLimits, *, images: bool) -> SandboxSpec:
    """Return the spec that a request to open a sandbox describes.

    Args:
        content: The request.
        most: The maximum limits.
        images: Whether clients may choose an image.

    Raises:
        UsageError: The request is invalid; the message is one line.
    """
    try:
        request = _SandboxRequest.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))!r:.100}: {first['msg']}") from None
    most.refuse_above(request.limits)
    _check_places(request, images)
    _check_environment(request.environment)
    return SandboxSpec(
        limits=_limits(request.limits), image=request.image, workdir=request.workdir, environment=request.environment
    )


def _limits(limits: Mapping[str, int | float]) -> SandboxLimits:
    whole = {field.name for field in fields(SandboxLimits) if isinstance(field.default, int)}
    for name, value in limits.items():
        if name in whole and not float(value).is_integer():
            raise UsageError(f"limits.{name}={value!r} must be an integer")
    checked = {name: int(value) if name in whole else value for name, value in limits.items()}
    try:
        return SandboxLimits(**checked)  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise UsageError(f"limits: {error}") from None


def _check_places(request: _SandboxRequest, images: bool) -> None:
    if not _WORKDIR.fullmatch(request.workdir) or request.workdir.split("/")[1] in _SYSTEM:
        raise UsageError(
            f"workdir={request.workdir!r:.100} must be an absolute path such as '/work': plain names, none of them "
            "'..', and not in a system folder"
        )
    if request.image is None:
        return
    if not images:
        raise UsageError("this server does not support images; open a sandbox without one")
    if not _IMAGE.fullmatch(request.image):
        raise UsageError(f"image={request.image!r:.100} is not a valid image name")


def _check_environment(environment: Mapping[str, str]) -> None:
    chars = sum(len(name) + len(value) for name, value in environment.items())
    if len(environment) > _MAX_VARIABLES or chars > _MAX_VARIABLES_CHARS:
        raise UsageError(
            f"environment: at most {_MAX_VARIABLES} variables with {_MAX_VARIABLES_CHARS} characters, "
            f"not {len(environment)} with {chars}"
        )
    answers.variables(environment)
    for name, value in environment.items():
        if any("\ud800" <= character <= "\udfff" for character in name + value):
            raise UsageError(
                f"environment: {name!r:.100} or its value contains a lone surrogate, which is not a valid character"
            )
