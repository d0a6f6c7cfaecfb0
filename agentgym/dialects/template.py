"""The template dialect: a model's own chat template writes calls, and its tokenizer's response template parses them.

It requires a tokenizer from transformers 5.15 or later. Importing this file does not import transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.dialects.base import Parsed
from agentgym.dialects.text import END_THINK, THINK, TextDialect, Unreadable
from agentgym.errors import ToolError, UsageError
from agentgym.messages import Message, ToolCall, assistant, calls_of, user
from agentgym.records import strict_json
from agentgym.toolset import Toolset

_CALLS, _CONTENT = "tool_calls", "content"
_MARK = "\ue000"
"""Appended to the text: a region that absorbs the mark was still open at the end."""


class TemplateDialect(TextDialect):
    """Calls as the model's chat template writes them; the prompt gets them through the template's `tools=`.

    `parse` requires special tokens to be kept in the text where the model's call syntax uses them (Llama, gpt-oss).
    `Parsed.text` is the content, preceded by the reasoning in `<think>`. `render` raises `ValueError` for turns that
    the template changes, such as text with surrounding white space.

    Args:
        tokenizer: A transformers tokenizer with a chat template and a `response_template` (TRL's
            `add_response_schema` sets one for known chat templates).
        template_options: Options for `apply_chat_template` (such as `enable_thinking=False`). Pass those used to make
            the prompts, so that `parse` knows what the template already wrote.
    """

    name = "template"

    def __init__(self, tokenizer: Any, **template_options: Any):
        if not isinstance(getattr(tokenizer, "response_template", None), Mapping):
            raise UsageError(
                "the 'template' dialect needs a tokenizer with a response_template; set tokenizer.response_template, "
                "or call trl.chat_template_utils.add_response_schema(tokenizer)"
            )
        self._tokenizer = tokenizer
        self._options = template_options
        self._end = tokenizer.eos_token or ""
        self._prompt = self._templated([user("?")], None, add_generation_prompt=True)
        fields = tokenizer.response_template["fields"]
        self._unmarked = {name for name, field in fields.items() if not {"open", "open_pattern"} & field.keys()}

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """Return an empty text: the chat template writes the tools into the prompt."""
        return ""

    def _read(self, text: str, tools: Toolset) -> Parsed:
        whole = text.rstrip()
        whole = whole if whole.endswith(self._end) else whole + self._end
        reasoning: list[str] = []
        content: list[str] = []
        calls: list[ToolCall] = []
        for field, value in self._regions(whole, tools):
            if field == _CALLS:
                calls += _calls(value)
            elif isinstance(value, str) and (piece := value.strip()):
                if calls:
                    raise Unreadable(f"There is text after the call: {piece[:60]!r}. End your message after it.")
                (content if field == _CONTENT else reasoning).append(piece)
        thought = "\n".join([THINK, *reasoning, END_THINK]) if reasoning else ""
        return Parsed("\n\n".join(part for part in (thought, "\n".join(content)) if part), tuple(calls))

    def _regions(self, text: str, tools: Toolset) -> list[tuple[str, Any]]:
        """Return the fields that the response template finds in a text, in order, with their values."""
        try:
            parser = self._tokenizer.get_response_parser(prefix=self._prompt, tools=tools.schemas)
            events = [*parser.initial_events, *parser.feed(text + _MARK)]
            self._refuse_unclosed(events)
            events += parser.finalize()[1]
        except ToolError:
            raise
        except Exception as error:  # another package's parser may raise anything on bad input
            raise Unreadable(_complaint(error)) from None
        found = [(event["field"], event["value"]) for event in events if event["type"] == "region_close"]
        return [(field, value.removesuffix(_MARK) if isinstance(value, str) else value) for field, value in found]

    def _refuse_unclosed(self, events: list[dict[str, Any]]) -> None:
        ends = [event for event in events if event["type"] != "region_chunk"]
        if ends and ends[-1]["type"] == "region_open" and ends[-1]["field"] not in self._unmarked:
            name = "tool call" if ends[-1]["field"] == _CALLS else ends[-1]["field"]
            raise Unreadable(f"The {name} in your message is never closed. Write it in full.", unclosed=True)

    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        schemas = tools.schemas or None
        try:
            prompt = self._templated([user("?")], schemas, add_generation_prompt=True)
            whole = self._templated([user("?"), assistant(text, list(calls))], schemas)
        except Exception as error:  # jinja's errors, and anything else a template raises
            raise ValueError(f"the chat template cannot write this turn: {error}") from error
        if not whole.startswith(prompt):
            raise ValueError(
                "the chat template does not continue its own generation prompt, so turns cannot be cut out"
            )
        return whole.removeprefix(prompt).rstrip().removesuffix(self._end)

    def _templated(self, messages: list[Message], schemas: list[dict[str, Any]] | None, **options: Any) -> str:
        return self._tokenizer.apply_chat_template(
            messages, tools=schemas, tokenize=False, **{**self._options, **options}
        )


def _calls(value: Any) -> tuple[ToolCall, ...]:
    """Parse one call or a list of calls, each nested under `function` or flat."""
    entries = value if isinstance(value, list) else [value]
    flat = [isinstance(entry, Mapping) and "function" not in entry for entry in entries]
    return calls_of({_CALLS: [{"function": e} if bare else e for e, bare in zip(entries, flat, strict=True)]})


def _complaint(error: Exception) -> str:
    """Describe what is wrong with a call, given the response parser's exception."""
    cause = error.__cause__
    if isinstance(cause, json.JSONDecodeError):
        try:
            strict_json.read_object(cause.doc)
        except ToolError as problem:
            return f"The tool call must hold a JSON object, but {problem}"
    return f"The tool call cannot be read: {str(error)[:200]}"
