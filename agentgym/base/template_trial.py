"""Tries a chat template in a process of its own, with limits: a template is a program, and comes with a model.

`{{ 'a' * 10**10 }}` takes all memory as soon as it is compiled, even where it is never rendered.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.base.interpreters import command_of

_MEMORY_MB, _CPU_S, _WAIT_S = 1024, 10, 60.0
_MOST_CHARS = 1_000_000
"""Longest text of one of the conversations, which have at most a fifth of it."""

_TOO_MUCH = 3
"""Exit status of a trial that reached a limit."""

_ASKED: dict[str, Any] = {"role": "user", "content": "?"}
_CALL: dict[str, Any] = {"type": "function", "id": "call_1", "function": {"name": "look", "arguments": {"at": "it"}}}
_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"at": {"type": "string", "description": "What."}}}
_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": _PARAMETERS}}
]
_PLAYED: list[dict[str, Any]] = [
    {"role": "assistant", "content": "I look around.", "tool_calls": [_CALL]},
    {"role": "tool", "name": "look", "tool_call_id": "call_1", "content": "A tree, and another tree. " * 80},
]
_CONVERSATIONS: list[dict[str, Any]] = [
    {"messages": [_ASKED], "tools": None, "add_generation_prompt": True},
    {"messages": [{"role": "system", "content": "Help."}, _ASKED], "tools": _TOOLS, "add_generation_prompt": True},
    {
        "messages": [
            _ASKED,
            {"role": "assistant", "content": "", "tool_calls": [_CALL]},
            {"role": "tool", "name": "look", "tool_call_id": "call_1", "content": "A tree."},
            {"role": "assistant", "content": "A tree."},
        ],
        "tools": _TOOLS,
        "add_generation_prompt": False,
    },
    {"messages": [_ASKED, *_PLAYED * 64], "tools": _TOOLS, "add_generation_prompt": True},
]
"""The variables of the conversations to render."""


def try_templates(templates: Any, name: str) -> None:
    """Try the chat template of a tokenizer.

    Args:
        templates: The template, or several by name.
        name: The tokenizer's name, for the message.

    Raises:
        UsageError: A template takes too much memory or time, or writes too much.
    """
    for template in templates.values() if isinstance(templates, dict) else [templates]:
        if isinstance(template, str) and not _is_bounded(template):
            raise UsageError(
                f"the chat template of {name} takes more than {_MEMORY_MB} MB or {_CPU_S} s, or writes more than "
                f"{_MOST_CHARS:,} characters, for a conversation of at most 64 calls; use another model or template"
            )


@cache
def _is_bounded(template: str) -> bool:
    try:
        done = subprocess.run(
            command_of(__name__), input=template.encode("utf-8", "replace"), capture_output=True, timeout=_WAIT_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode >= 0 and done.returncode != _TOO_MUCH  # below 0, a limit of the system has ended it


def main() -> int:
    """Compile and render the template on standard input as transformers does; return the exit status."""
    import resource

    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        """The tag `generation`, which marks the model's turns: its body is rendered as it is."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_MB << 20, _MEMORY_MB << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = json.dumps
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda _: "1 January 2026"}
    source = sys.stdin.buffer.read().decode()
    sys.settrace(_heed)  # jinja folds constants when it compiles, and hides the errors of that
    try:
        template = environment.from_string(source)
        return _TOO_MUCH if any(_is_too_long(template, variables) for variables in _CONVERSATIONS) else 0
    except Exception:  # a template that cannot be compiled fails when it is used
        return 0


def _heed(_: Any, event: str, argument: Any) -> Any:
    """End the process once memory runs out, whoever catches the error."""
    if event == "exception" and issubclass(argument[0], MemoryError):
        os._exit(_TOO_MUCH)
    return _heed


def _is_too_long(template: Any, variables: dict[str, Any]) -> bool:
    length = 0
    try:
        for piece in template.generate(bos_token="<s>", eos_token="</s>", **variables):
            length += len(piece)
            if length > _MOST_CHARS:
                return True
    except Exception:  # a template may refuse a conversation
        return False
    return False


if __name__ == "__main__":
    sys.exit(main())
