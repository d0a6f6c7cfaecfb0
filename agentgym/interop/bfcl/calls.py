"""Converts between the package's calls, which are Python, and a policy's calls, which are a name and arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.errors import BrokenTask
from agentgym.messages import ToolCall
from agentgym.syntax import parse


def written(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as Python; its arguments are plain data and become literals."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def read(text: str, parameters: Callable[[str], Sequence[str]]) -> ToolCall:
    """Parse a call in Python.

    Args:
        text: The call.
        parameters: Returns the names of a function's parameters, in order, for positional arguments.

    Raises:
        BrokenTask: It is not a call of a function with literals.
    """
    try:
        call = parse(text.strip(), mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError("it is not a function call")
        names = parameters(call.func.id)
        arguments = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
        arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, KeyError) as error:
        raise BrokenTask(f"the gold call {text!r} cannot be read: {error}") from error
    return ToolCall(call.func.id, arguments)
