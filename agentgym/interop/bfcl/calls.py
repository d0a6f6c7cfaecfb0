"""Calls as the package writes them, which is Python, and as a policy makes them, which is a name and arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.errors import BrokenTask
from agentgym.messages import ToolCall
from agentgym.syntax import parse


def written(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as Python. Arguments are plain data, so they are literals there."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def read(text: str, parameters: Callable[[str], Sequence[str]]) -> ToolCall:
    """Return the call that a text of Python stands for.

    Args:
        text: The call.
        parameters: Returns the names of a function's parameters, in order, for arguments without a name.

    Raises:
        BrokenTask: It is not a call of a function with literals.
    """
    try:
        call = parse(text.strip(), mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError("it is no call of a function")
        names = parameters(call.func.id)
        arguments = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
        arguments |= {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, KeyError) as error:
        raise BrokenTask(f"the gold call {text!r} cannot be read: {error}") from error
    return ToolCall(call.func.id, arguments)
