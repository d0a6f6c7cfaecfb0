"""Creates the dialect of a model's own chat template from its name: `template:MODEL`, or `template:MODEL?{"option":
1}`.

The name suffices for environments in other processes and in recordings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from transformers import AutoTokenizer

from agentgym.base.errors import UsageError
from agentgym.core.dialects import TEMPLATE
from agentgym.core.dialects.template import TemplateDialect
from agentgym.eval.policy_loader import TINY
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.hub import options_for


def name_of(model: str, template_kwargs: Mapping[str, Any] | None = None) -> str:
    """Return the full name of the dialect for a model.

    Args:
        model: A folder, a GGUF file, or a public name.
        template_kwargs: Arguments of the chat template.

    Raises:
        UsageError: The model is `tiny`.
    """
    if model == TINY:
        raise UsageError("the chat template of the tiny model has no tools; use the dialect compact")
    options = "?" + json.dumps(dict(template_kwargs), sort_keys=True) if template_kwargs else ""
    return f"{TEMPLATE}:{model}{options}"


@lru_cache(maxsize=8)
def load(name: str) -> TemplateDialect:
    """Return the dialect with this name. Raises `UsageError` for an unknown model or a template without calls."""
    model, marked, options = name.partition(":")[2].partition("?")
    try:
        template_kwargs = json.loads(options) if marked else {}
        source = checkpoint_of(model)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options_for(source))
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), repr(error))
        raise UsageError(f"the dialect {name!r} cannot be created: {reason}") from error
    return of_tokenizer(tokenizer, template_kwargs)


def of_tokenizer(tokenizer: Any, template_kwargs: Mapping[str, Any] | None = None) -> TemplateDialect:
    """Return the dialect of a tokenizer. Raises `UsageError` if its template writes calls in an unknown format."""
    from trl import add_response_schema  # slow to import  # pyright: ignore[reportPrivateImportUsage]

    options = dict(template_kwargs or {})
    try:
        return TemplateDialect(tokenizer, **options)
    except UsageError:
        try:
            add_response_schema(tokenizer)
        except ValueError:  # TRL does not know the template either
            pass
        else:
            return TemplateDialect(tokenizer, **options)
        raise
