"""Writes docs/settings.md, the page of all settings of a training, from `TrainConfig`.

python -m agentgym.trainers.settings_page docs/settings.md
"""

from __future__ import annotations

import sys
from dataclasses import MISSING
from itertools import groupby
from pathlib import Path
from typing import Any

from agentgym.base import yaml12
from agentgym.trainers.command import panels
from agentgym.trainers.config import FIELDS, PRETRAINED, documentation

_HEAD = """\
# All settings of a training

Each is a flag of `agentgym train` (`--learning-rate 1e-4`) and a line of a recipe (`learning_rate: 1e-4`). The second
column is the default for the tiny model, the third the one for pretrained models where it differs; recipes set others.
`agentgym train --env ENV --show-config` prints the values of a run before it starts, and `--set NAME=VALUE` passes
arguments of the environment, which are on its [card](envs/README.md).

This page is written from the code (`scripts/docs settings`).
"""


def settings_page() -> str:
    """Return the page as Markdown."""
    headings = panels()
    parts = [_HEAD]
    for heading, names in groupby(FIELDS, key=headings.__getitem__):
        rows = [
            f"| `{name}` | {_default(name)} | {_pretrained(name)} | {_cell(documentation(name))} |" for name in names
        ]
        table = ["| setting | default | pretrained | meaning |", "|---|---|---|---|", *rows]
        parts.append(f"## {heading}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def _default(name: str) -> str:
    field = FIELDS[name]
    value = field.default if field.default_factory is MISSING else field.default_factory()
    return _code(getattr(value, "value", value))


def _pretrained(name: str) -> str:
    return _code(PRETRAINED[name]) if name in PRETRAINED else ""


def _code(value: Any) -> str:
    text = yaml12.dump({"value": value}).strip().removeprefix("value:").strip()
    return f"`{'[' + ', '.join(value) + ']' if isinstance(value, list) else text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(settings_page(), encoding="utf-8")
