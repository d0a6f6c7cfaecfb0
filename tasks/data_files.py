"""The YAML files in the `data/` folders of this package: the words and sentences that tasks are written with."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def read_data(folder: str, name: str) -> dict[str, Any]:
    """Return the content of `tasks/<folder>/data/<name>.yaml`. Callers share it, and must not change it."""
    path = Path(__file__).parent / folder / "data" / f"{name}.yaml"
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
