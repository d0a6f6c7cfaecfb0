"""Asks the model hub once whether it has a model, and reports problems in one line.

On its own, transformers retries an unreachable hub for up to a minute and logs a line for each attempt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,  # pyright: ignore[reportPrivateImportUsage]  # of the hub's HTTP client, which differs between releases
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from agentgym.base.errors import UsageError

_PROBED = "config.json"
"""The first file that transformers loads."""

_TIMEOUT_S = 10.0

_INSTEAD = (
    "Give 'tiny', 'smollm2', a folder with a transformers checkpoint, a GGUF file, the name of a model on the hub "
    "(org/name), or, to evaluate a model behind an endpoint, --policy openai:MODEL@URL"
)


def options_for(model: str) -> dict[str, Any]:
    """Return options for `from_pretrained` that avoid retrying an unreachable hub.

    Args:
        model: A folder, or the name of a model on the hub.

    Returns:
        `{"local_files_only": True}` if only the cache has the model; otherwise `{}`. For an invalid name or a model
        without a configuration, `from_pretrained` raises its own error.

    Raises:
        UsageError: Neither the hub nor the cache has the model; the message says why and what to do.
    """
    if Path(model).is_dir():
        return {}
    try:
        get_hf_file_metadata(hf_hub_url(model, _PROBED), timeout=_TIMEOUT_S)
    except (HFValidationError, EntryNotFoundError):
        return {}
    except (HTTPError, OfflineModeIsEnabled) as error:
        if isinstance(try_to_load_from_cache(model, _PROBED), str):
            return {"local_files_only": True}
        raise UsageError(f"cannot load model {model!r}: {_why(error, model)}. {_INSTEAD}") from error
    return {}


def _why(error: Exception, model: str) -> str:
    hub = constants.ENDPOINT
    if isinstance(error, GatedRepoError):
        return f"it is gated; accept its terms at {hub}/{model}, then log in with `hf auth login`"
    if isinstance(error, RepositoryNotFoundError):
        return f"{hub} has no such model; if it is private, log in with `hf auth login`"
    if isinstance(error, OfflineModeIsEnabled):
        return "it is not in the cache, and HF_HUB_OFFLINE forbids downloads"
    if isinstance(error, HfHubHTTPError):
        return f"it is not in the cache, and {hub} answers with an error: {_first_line(error)}"
    return f"it is not in the cache, and {hub} cannot be reached: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    """Return the first line of an error without its full stop."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
