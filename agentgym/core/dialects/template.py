"""The template dialect: a model's own chat template shows the tools and writes the calls.

`--dialect template` selects it; `get_dialect("template:MODEL")` returns it by name. Importing this file does not import
transformers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.base import strict_json
from agentgym.base.errors import ToolError, UsageError
from agentgym.base.template_trial import try_templates
from agentgym.core.dialects.base import Parsed
from agentgym.core.dialects.families import BEGINNINGS, FAMILIES, Reader, json_in_tags
from agentgym.core.dialects.hermes import Hermes
from agentgym.core.dialects.text import END_THINK, THINK, ParseError, TextDialect
from agentgym.core.messages import Message, ToolCall, assistant, calls_of, user
from agentgym.core.schema_tool import SchemaTool
from agentgym.core.toolset import Toolset

TOOLS_NAMES = ("tools", "xml_tools")
"""The arguments that chat templates use for tool schemas: nearly all the first, SmolLM3's the second."""

_CALLS, _CONTENT = "tool_calls", "content"
_MARK = "\ue000"
"""A mark appended to the text: a region that absorbs it was still open at the end."""
_SAID = "\u2042"
_REASONING = re.compile(rf"\s*{THINK}(.*?){END_THINK}\s*", re.DOTALL)
_TIDY_THOUGHT = re.compile(rf"{THINK}\n\S")

_PROBE_CALL = ToolCall("probe_of_tools", {"words": 'é "quoted" {x}', "limits": {"at_most": [1, 2.5]}}, "call_1")
_PROBE_TOOLS = Toolset(
    [
        SchemaTool(
            {
                "name": _PROBE_CALL.name,
                "description": "Probe.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "words": {"type": "string", "description": "Words."},
                        "limits": {"type": "object", "description": "Limits."},
                    },
                },
            },
            lambda arguments: None,
        )
    ]
)

_ONE_CALL = "Call one function at a time."
_INSTRUCTIONS = """# Tools

You may call these functions:
{schemas}

To call a function, end your message like this, with its name and arguments:
{example}"""


class TemplateDialect(TextDialect):
    """Calls as the model's chat template writes them; the prompt gets them through the template's `tools=`.

    Turns are read with the tokenizer's `response_template` if it has one (transformers 5.15 or later), else with the
    first reader in `agentgym.core.dialects.families` that understands them: Qwen, SmolLM3, Llama 3, DeepSeek and models
    with the same format.

    `parse` requires special tokens to be kept in the text where the model's call syntax uses them. `Parsed.text` is the
    content, preceded by the reasoning in `<think>`. `render` raises `ValueError` for turns that the template changes,
    such as text with surrounding white space, or text before a call with Llama.

    Args:
        tokenizer: A transformers tokenizer with a chat template.
        template_options: Options for `apply_chat_template` (such as `enable_thinking=False`). Pass those used to make
            the prompts, so that `parse` knows what the template already wrote.

    Raises:
        UsageError: The template writes no tool calls, writes them in an unknown form, or takes too much memory or time.
    """

    name = "template"

    def __init__(self, tokenizer: Any, **template_options: Any):
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError("the 'template' dialect needs a tokenizer with a chat template; choose another dialect")
        self._tokenizer = tokenizer
        self._options = template_options
        try_templates(tokenizer.chat_template, self._name)
        try:
            self._prompt = self._templated([user("?")], None, add_generation_prompt=True)
            self._end = self._end_of_turn()
        except Exception as error:  # jinja's errors, and anything else a template raises
            raise UsageError(f"the chat template of {self._name} cannot write a turn of text: {error}") from error
        self._tools_name = self._name_of_tools()
        self._writes_calls = True
        self._opens_reasoning = self._prompt.rstrip().endswith(THINK)
        response_template = getattr(tokenizer, "response_template", None)
        self._fields = response_template["fields"] if isinstance(response_template, Mapping) else None
        self._reader = self._known_reader() if self._fields is None else None
        self._example = self._example_call() if self._tools_name is None else ""

    def instructions(self, tools: Toolset, max_calls: int = 1) -> str:
        """Return a sentence about the number of calls: the chat template lists the tools, and many templates allow
        several.

        For templates that write calls but do not list tools (DeepSeek's), also list them, with an example from the
        template.
        """
        number = _ONE_CALL if max_calls == 1 else ""
        if self._tools_name is not None:
            return number
        schemas = "\n".join(strict_json.write(schema) for schema in tools.schemas)
        return "\n\n".join(filter(None, (_INSTRUCTIONS.format(schemas=schemas, example=self._example), number)))

    def _read(self, text: str, tools: Toolset) -> Parsed:
        whole = text.rstrip().removesuffix(self._end).rstrip() if self._end else text.rstrip()
        if self._fields is not None:
            return self._read_regions(whole, tools)
        assert self._reader is not None
        if self._opens_reasoning and END_THINK in whole and THINK not in whole.partition(END_THINK)[0]:
            whole = f"{THINK}\n{whole}"
        parsed = self._reader(whole, tools)
        return Parsed(_tidy(parsed.text), parsed.calls)

    def settled(self, text: str, tools: Toolset) -> int:
        """Return the number of leading characters of an unfinished turn that are certainly text.

        Characters that `parse` may change, such as leading white space, do not count; with a `response_template`, none
        do.
        """
        raw = text[: super().settled(text, tools)].rstrip()
        cut = next((size for size in range(len(self._end), 0, -1) if raw.endswith(self._end[:size])), 0)
        raw = raw[: len(raw) - cut].rstrip()
        is_thought = raw.startswith(THINK) or THINK.startswith(raw)  # or a prefix of one
        if (self._opens_reasoning and not is_thought) or (is_thought and not _TIDY_THOUGHT.match(raw)):
            return 0
        tidy = _tidy(raw)
        same = (at for at, (raw_char, tidy_char) in enumerate(zip(raw, tidy, strict=False)) if raw_char != tidy_char)
        return next(same, min(len(raw), len(tidy)))

    def _beginning_of_call(self, tools: Toolset) -> re.Pattern[str] | None:
        return None if self._reader is None else BEGINNINGS[self._reader]

    def _read_regions(self, text: str, tools: Toolset) -> Parsed:
        if self._opens_reasoning and text.startswith(THINK):
            text = text.removeprefix(THINK).removeprefix("\n")  # it stands in the prompt
        reasoning: list[str] = []
        content: list[str] = []
        calls: list[ToolCall] = []
        for field, value in self._regions(text + self._end, tools):
            if field == _CALLS:
                calls += _calls(value)
            elif isinstance(value, str) and (piece := value.strip()):
                if calls:
                    raise ParseError(f"There is text after the call: {piece[:60]!r}. End your message after it.")
                (content if field == _CONTENT else reasoning).append(piece)
        return Parsed(_with_reasoning("\n".join(reasoning), "\n".join(content)), tuple(calls))

    def _regions(self, text: str, tools: Toolset) -> list[tuple[str, Any]]:
        """Return the fields that the response template finds in a text, in order, with their values."""
        try:
            parser = self._tokenizer.get_response_parser(prefix=self._prompt, tools=tools.schemas)
            events = [*parser.initial_events, *parser.feed(text + _MARK)]
            self._refuse_unclosed(events)
            events += self._ended(parser.finalize()[1])
        except ToolError:
            raise
        except Exception as error:  # another package's parser may raise anything on bad input
            raise ParseError(_complaint(error)) from None
        regions = [(event["field"], event["value"]) for event in events if event["type"] == "region_close"]
        return [(field, value.removesuffix(_MARK) if isinstance(value, str) else value) for field, value in regions]

    def _ended(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the events at the end of a text. Raises for a call that begins there: its name may be incomplete."""
        if any(event["type"] == "region_open" and event["field"] == _CALLS for event in events):
            raise _unclosed("tool call")
        return events

    def _refuse_unclosed(self, events: list[dict[str, Any]]) -> None:
        unmarked = {name for name, field in (self._fields or {}).items() if not {"open", "open_pattern"} & field.keys()}
        ends = [event for event in events if event["type"] != "region_chunk"]
        if ends and ends[-1]["type"] == "region_open" and ends[-1]["field"] not in unmarked:
            name = "tool call" if ends[-1]["field"] == _CALLS else ends[-1]["field"]
            raise _unclosed(name)

    def _write(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        return self._template_text(text, calls, tools.schemas or None)

    def _template_text(self, text: str, calls: Sequence[ToolCall], schemas: list[dict[str, Any]] | None) -> str:
        """Return what the template writes for a turn. Raises `ValueError` if it cannot write it."""
        prompt = self._templated([user("?")], schemas, add_generation_prompt=True)
        whole = self._turn(text, calls, schemas, prompt)
        prefix = prompt.rstrip()
        if self._opens_reasoning:
            prefix = prefix.removesuffix(THINK).rstrip()  # the template writes the turn with or without its reasoning
        if not whole.startswith(prefix):
            raise ValueError(
                "the chat template does not continue its own generation prompt, so turns cannot be extracted"
            )
        return whole.removeprefix(prefix).strip().removesuffix(self._end).rstrip()

    def _turn(self, text: str, calls: Sequence[ToolCall], schemas: list[dict[str, Any]] | None, prompt: str) -> str:
        """Write a turn in the first form that the template accepts (`_forms`)."""
        problems: list[str] = []
        forms = _forms(text, calls) if self._writes_calls else [assistant(Hermes().render(text, calls, _PROBE_TOOLS))]
        for message in forms:
            try:
                written = self._templated([user("?"), message], schemas)
            except Exception as error:  # jinja's errors, and anything else a template raises
                problems.append(str(error))
                continue
            if all(written.count(call.name) > prompt.count(call.name) for call in calls):
                return written
            problems.append("it leaves out the calls")
        raise ValueError(f"the chat template cannot write this turn: {problems[0]}")

    def _end_of_turn(self) -> str:
        """Return the text that ends a turn. A parsed text may lack it."""
        return self._templated([user("?"), assistant(_SAID)], None).partition(_SAID)[2].strip()

    def _known_reader(self) -> Reader:
        """Return the first reader that can read the template's calls."""
        try:
            written = self._template_text("", [_PROBE_CALL], _PROBE_TOOLS.schemas)
        except ValueError as error:
            if self._explains_json_in_tags():
                self._writes_calls = False
                return json_in_tags
            raise UsageError(
                f"the chat template of {self._name} writes no tool calls ({error}); choose another dialect, such as "
                "hermes"
            ) from None
        for reader in FAMILIES:
            try:
                calls = reader(written, _PROBE_TOOLS).calls
            except ToolError:
                continue
            if [(call.name, dict(call.arguments)) for call in calls] == [
                (_PROBE_CALL.name, dict(_PROBE_CALL.arguments))
            ]:
                return reader
        raise UsageError(
            f"the chat template of {self._name} writes tool calls in an unknown form: {written[:120]!r}; set "
            "tokenizer.response_template and save it with the model, or choose another dialect, such as hermes"
        )

    def _example_call(self) -> str:
        """Return an example call in the template's form, for templates that do not list tools."""
        try:
            return self._template_text("", [ToolCall("FUNCTION", {"ARGUMENT": "VALUE"}, "call_1")], None)
        except ValueError as error:
            raise UsageError(
                f"the chat template of {self._name} shows no tools and writes no calls ({error}); choose another "
                "dialect, such as hermes"
            ) from None

    def _name_of_tools(self) -> str | None:
        """Return the argument for tool schemas that makes the template list them, if any."""
        return next((name for name in TOOLS_NAMES if _PROBE_CALL.name in self._prompt_with(name)), None)

    def _prompt_with(self, tools_name: str) -> str:
        tools: dict[str, Any] = {tools_name: _PROBE_TOOLS.schemas}
        try:
            return self._templated([user("?")], None, add_generation_prompt=True, **tools)
        except Exception:  # a template that refuses tools does not show them
            return ""

    def _explains_json_in_tags(self) -> bool:
        """Whether the prompt asks the model for calls like those of `hermes`, though the template itself writes none.
        SmolLM3's template leaves that to its caller.
        """
        prompt = self._prompt_with(self._tools_name) if self._tools_name else ""
        return all(word in prompt for word in ("<tool_call>", "</tool_call>", '"name"', '"arguments"'))

    @property
    def _name(self) -> str:
        return repr(getattr(self._tokenizer, "name_or_path", "") or type(self._tokenizer).__name__)

    def _templated(self, messages: list[Message], schemas: list[dict[str, Any]] | None, **options: Any) -> str:
        tools: dict[str, Any] = {} if schemas is None else {self._tools_name or "tools": schemas}
        arguments = {"tools": None, **tools, **self._options, **options}
        return self._tokenizer.apply_chat_template(messages, tokenize=False, **arguments)


def _unclosed(name: str) -> ParseError:
    return ParseError(f"The {name} in your message is never closed. Write it in full.", unclosed=True)


def _forms(text: str, calls: Sequence[ToolCall]) -> list[Message]:
    """Return a turn in the forms that templates expect: arguments as an object or JSON text, empty content as "" or
    `None`."""
    forms: list[Any] = [assistant(text, list(calls))]
    if calls:
        as_text = [call.to_dict(arguments_as_text=True) for call in calls]
        forms += [{**forms[0], "tool_calls": as_text}]
        if not text:
            forms += [{**form, "content": None} for form in forms]
    return forms


def _tidy(text: str) -> str:
    """Return a text with its reasoning as `_with_reasoning` writes it, or without reasoning if that is empty."""
    match = _REASONING.match(text)
    return text.strip() if match is None else _with_reasoning(match[1].strip(), text[match.end() :].strip())


def _with_reasoning(reasoning: str, content: str) -> str:
    thought = f"{THINK}\n{reasoning}\n{END_THINK}" if reasoning else ""
    return "\n\n".join(part for part in (thought, content) if part)


def _calls(value: Any) -> tuple[ToolCall, ...]:
    """Parse one call or a list of calls, each nested under `function` or flat."""
    entries = value if isinstance(value, list) else [value]
    flat = [isinstance(entry, Mapping) and "function" not in entry for entry in entries]
    return calls_of({_CALLS: [{"function": e} if bare else e for e, bare in zip(entries, flat, strict=True)]})


def _complaint(error: Exception) -> str:
    """Describe the fault in a call, given the response parser's exception."""
    cause = error.__cause__
    if isinstance(cause, json.JSONDecodeError):
        try:
            strict_json.read_object(cause.doc)
        except ToolError as problem:
            return f"The tool call must hold a JSON object, but {problem}"
    return f"The tool call cannot be read: {str(error)[:200]}"
