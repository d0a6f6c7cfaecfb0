"""Values of environment variables that a task takes from outside: `${NAME}` and `${NAME:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentgym.task_files.left_out import Unusable, Why

_TEMPLATE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


def resolved(values: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Return variables with their templates filled in.

    Nothing is read from the environment of this process: a task is not trusted with the secrets in it.

    Args:
        values: The variables as the task has them.
        given: What the user gives to tasks.

    Raises:
        Unusable: A variable without a default is not given.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name not in given and default is None:
            raise Unusable(f"it needs the variable {name}; give it with variables={{{name!r}: ...}}", Why.UNSUPPORTED)
        return given.get(name, default or "")

    return {str(name): _TEMPLATE.sub(value, str(text)) for name, text in values.items()}
