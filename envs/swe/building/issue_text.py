"""Words of issues: a title, code to run, expected and actual results, as different people would write them."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from agentgym.base.syntax import parse
from agentgym.envs.swe.building.issue_code import PRINT, double_quoted, error_of, fenced, script, session, traceback_of
from agentgym.envs.swe.building.probe import SnippetResult
from agentgym.envs.swe.building.runner import Failure
from agentgym.envs.swe.building.snippet import Snippet
from agentgym.envs.swe.building.symptoms import Symptom


class Fault(Enum):
    """How the actual result differs from the expected one."""

    CRASH = (
        "{subject} raises {got}",
        "{got} from {subject}",
        "{subject} fails with {got}",
        "Unexpected {got} from {subject}",
    )
    SILENT = (
        "{subject} no longer raises {expected}",
        "No {expected} from {subject}",
        "{subject} should raise {expected}, but does not",
    )
    OTHER_ERROR = (
        "{subject} raises {got} instead of {expected}",
        "{got} instead of {expected} from {subject}",
    )
    MESSAGE = ("Wrong error message from {subject}", "{subject}: the error message is wrong")
    NONE = ("{subject} gives `None`", "`None` from {subject}")
    TRUTH = ("{subject}: {got} instead of {expected}", "{subject} is {got}, should be {expected}")
    ORDER = ("{subject}: wrong order", "Wrong order in the result of {subject}")
    EMPTY = ("{subject} comes back empty", "Empty result from {subject}")
    MISSING = ("{subject} leaves something out", "Something is missing in the result of {subject}")
    EXTRA = ("{subject} returns more than it should", "Something extra in the result of {subject}")
    OFF_BY_ONE = ("{subject} is off by one", "Off by one in {subject}")
    NUMBER = ("{subject} gives a wrong number", "Wrong number from {subject}")
    SPACE = ("Whitespace is wrong in the output of {subject}", "{subject}: spacing is off")
    TEXT = ("Wrong text from {subject}", "{subject}: the text is wrong")
    EFFECT = ("{subject} does not work as expected", "Unexpected behaviour of {subject}", "Problem with {subject}")
    VALUE = ("Wrong result from {subject}", "{subject} gives a wrong result", "{subject} is wrong in some cases")


_OPERATORS = {
    "add": "+", "radd": "+", "sub": "-", "rsub": "-", "mul": "*", "rmul": "*", "truediv": "/", "rtruediv": "/",
    "pow": "**", "neg": "-", "and": "&", "or": "|", "xor": "^", "eq": "==", "ne": "!=", "contains": "in",
}  # fmt: skip
_SHORT = 45
_SPECIAL = {
    "getitem": "indexing {}", "setitem": "assigning to an item of {}", "delitem": "`del` on an item of {}",
    "iter": "iterating over {}", "lt": "comparing {}", "le": "comparing {}", "gt": "comparing {}", "ge": "comparing {}",
    "len": "`len()` of {}", "str": "`str()` of {}", "repr": "`repr()` of {}", "hash": "`hash()` of {}",
    **{name: f"`{sign}` with {{}}" for name, sign in _OPERATORS.items()},
}  # fmt: skip


def title_of(symptom: Symptom, package: str, rng: random.Random) -> str:
    """Return one line that names the part of the library and what is wrong with it."""
    subject = subject_of(symptom) or f"`{package}`"
    words = {"got": _name(symptom.got), "expected": _name(symptom.expected), "subject": subject}
    fault = fault_of(symptom.expected, symptom.got)
    if isinstance(symptom.snippet.last, ast.Name) and not symptom.got.raised:
        fault = Fault.EFFECT  # of an earlier call
    title = rng.choice(fault.value).format(**words)
    return title[:1].upper() + title[1:] if not title.startswith("`") else title


def fault_of(expected: SnippetResult, got: SnippetResult) -> Fault:
    """Return how two results differ, as a user would put it."""
    if got.raised and expected.raised:
        return Fault.MESSAGE if got.raised == expected.raised else Fault.OTHER_ERROR
    if got.raised or expected.raised:
        return Fault.CRASH if got.raised else Fault.SILENT
    if expected.repr == got.repr:
        return Fault.VALUE
    if got.type == "NoneType":
        return Fault.NONE
    if expected.type == "bool" == got.type:
        return Fault.TRUTH
    if expected.type == "str" == got.type:
        return Fault.SPACE if "".join(expected.str.split()) == "".join(got.str.split()) else Fault.TEXT
    try:
        return _of_values(literal(expected.repr), literal(got.repr))
    except (ValueError, SyntaxError):
        return Fault.VALUE


def literal(text: str) -> object:
    """Return the value that a text stands for. Raises `ValueError` or `SyntaxError` if it is not a literal."""
    return ast.literal_eval(parse(text, mode="eval"))


def _of_values(expected: object, got: object) -> Fault:
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return Fault.OFF_BY_ONE if abs(expected - got) == 1 else Fault.NUMBER
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        expected_items, got_items = Counter(map(repr, expected)), Counter(map(repr, got))
        if expected and not got:
            return Fault.EMPTY
        if expected_items == got_items:
            return Fault.ORDER
        if not got_items - expected_items:
            return Fault.MISSING
        if not expected_items - got_items:
            return Fault.EXTRA
    return Fault.VALUE


def _name(result: SnippetResult) -> str:
    return f"`{result.raised}`" if result.raised else f"`{result.repr}`"


def subject_of(symptom: Symptom) -> str:
    """Return the public function, method or class that an issue is about; empty if none is known."""
    code, end = symptom.snippet.code, double_quoted(symptom.snippet.end)
    if isinstance(symptom.snippet.last, ast.Attribute | ast.Subscript | ast.Compare) and len(end) <= _SHORT:
        return f"`{end}`"
    first, second = (symptom.got, symptom.expected) if symptom.got.raised else (symptom.expected, symptom.got)
    calls = [*reversed(first.calls), *reversed(second.calls)]
    for name in sorted(calls, key=lambda name: name.endswith(("__str__", "__repr__", "__eq__"))):
        owner, _, last = name.rpartition(".")
        special = last.strip("_") if last.startswith("__") else ""
        if "<" in name or "." in owner or owner.startswith("_") or (last.startswith("_") and not special):
            continue
        if special in ("init", "post_init"):
            return f"`{owner}`"
        if special in _SPECIAL and owner:
            return _SPECIAL[special].format(f"`{owner}`")
        if not special:
            return f"`{name}()`" if re.search(rf"\b{last}\(", code) else f"`{name}`"
    return next(_called(symptom.snippet), "")


def _called(snippet: Snippet) -> Iterator[str]:
    """Yield the imported functions, classes and methods that the code calls, last first."""
    imported = {alias.asname or alias.name for item in snippet.imports for alias in item.names}
    class_of: dict[str, str] = {}
    for item in snippet.setup:
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call) and isinstance(item.value.func, ast.Name):
            class_of |= {node.id: item.value.func.id for node in item.targets if isinstance(node, ast.Name)}
    for item in (snippet.last, *reversed(snippet.setup)):
        for call in [node for node in ast.walk(item) if isinstance(node, ast.Call)]:
            if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
                if class_of.get(call.func.value.id) in imported:
                    yield f"`{class_of[call.func.value.id]}.{call.func.attr}()`"
            elif isinstance(call.func, ast.Name) and call.func.id in imported:
                yield f"`{call.func.id}()`" if call.func.id.islower() else f"`{call.func.id}`"


_INLINE = 90
_LINE = 85


_LEADS = (
    "With {name} {version}:",
    "Steps to reproduce ({name} {version}):",
    "This is the smallest example that I could come up with, on {name} {version}:",
    "I noticed this after updating {name} to {version}.",
    "I'm on {name} {version}. Reduced to a few lines:",
    "Run this with {name} {version}:",
    "I came across this in {name} {version} while chasing a bug in our own code:",
    "Here is what I ran (version {version}):",
)
_CLOSINGS = (
    "",
    "",
    "",
    "",
    "I have not looked into the cause.",
    "Thanks!",
    "Happens every time for me.",
    "I don't see what I could be doing wrong here.",
    "Let me know if you need anything else.",
)
_SEVERAL = (
    "Several things broke in {name} {version}",
    "A few problems with {name} {version}",
    "{name} {version}: {number} bugs that we ran into",
    "Regressions in {name} {version}",
)
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}


def issue_text(
    package: str, version: str, symptoms: Sequence[Symptom], failures: Sequence[Failure], rng: random.Random
) -> str:
    """Return an issue about one or several bugs.

    Args:
        package: Name of the package.
        version: Its version.
        symptoms: The bugs that code shows.
        failures: For each other bug, the failure of a test.
        rng: Chooses the form and the words.
    """
    form, style = rng.choice(_FORMS), str(rng.random())
    lead = rng.choice(_LEADS).format(name=package, version=version)
    closing = rng.choice(_CLOSINGS)
    titles = _apart([title_of(symptom, package, rng) for symptom in symptoms], symptoms)
    descriptions = [_described(failure, package, version) for failure in failures]
    if not symptoms:
        return _joined(f"{package} {version} does not work as it did before", *descriptions, closing)
    if len(symptoms) == 1:
        return _joined(titles[0], form(symptoms[0], lead, random.Random(style)), *descriptions, closing)
    words = {"name": package, "version": version, "number": _NUMBERS.get(len(symptoms), str(len(symptoms)))}
    sections = [
        f"{number}. {title}\n\n{form(symptom, '', random.Random(style))}"
        for number, (title, symptom) in enumerate(zip(titles, symptoms, strict=True), start=1)
    ]
    return _joined(rng.choice(_SEVERAL).format(**words), _about(words, rng), *sections, *descriptions, closing)


def _apart(titles: Sequence[str], symptoms: Sequence[Symptom]) -> list[str]:
    """Return the titles, with a different one for a symptom that looks like an earlier one."""
    keys = [(subject_of(symptom), fault_of(symptom.expected, symptom.got), symptom.got.raised) for symptom in symptoms]
    return [
        title if key not in keys[:place] else "The same in another case"
        for place, (title, key) in enumerate(zip(titles, keys, strict=True))
    ]


def _described(failure: Failure, package: str, version: str) -> str:
    """Describe a bug that no code shows."""
    if failure.exception not in ("", "AssertionError", "Failed"):
        lines = traceback_of(SnippetResult(raised=failure.exception, message=failure.message.split("\n")[0][:_INLINE]))
        return f"Since {version}, one of our test suites that uses {package} ends with\n\n{fenced(lines)}"
    if failure.compared and failure.compared[1] == "==":
        came, expected = (text if len(text) <= _INLINE else f"{text[:_INLINE]}..." for text in failure.compared[::2])
        return (
            f"Since {version}, one of our checks of {package} fails: it gives {_quoted(came)}, not {_quoted(expected)}."
        )
    if failure.exception == "Failed":
        return f"Since {version}, {package} accepts something that it refused before."
    return f"Since {version}, one of our checks of {package} fails."


def _about(words: dict[str, str], rng: random.Random) -> str:
    return rng.choice(
        (
            "I am putting these into one issue because they all appeared with {version}.",
            "Found {number} problems with {name} {version}; each example runs on its own.",
            "After the update to {version} we see {number} failures. They may or may not be related.",
        )
    ).format(**words)


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(symptom: Symptom, lead: str, rng: random.Random) -> str:
    """A script, then what happens, in sentences."""
    printing, expected, got = _printed(symptom)
    return _joined(lead, script(symptom.snippet, printing=printing), _sentences(symptom, expected, got, rng)).rstrip()


def _headed(symptom: Symptom, lead: str, rng: random.Random) -> str:
    """The form that many projects ask for."""
    printing, expected, got = _printed(symptom)
    head = rng.choice(("### {}", "**{}**", "**{}:**") if lead else ("**{}**", "**{}:**"))
    right = f"`{error_of(symptom.expected)}`" if symptom.expected.raised else _quoted(expected)
    came = fenced(traceback_of(symptom.got)) if symptom.got.raised else _quoted(got)
    if symptom.expected.raised and not symptom.got.raised:
        right = f"`{error_of(symptom.expected)}` is raised."
        came = "No error" + (f", it prints {_quoted(got)}." if got.strip() and "\n" not in _quoted(got) else ".")
    elif symptom.got.raised and symptom.expected.quiet:
        right = "No error."
    return _joined(
        head.format(rng.choice(("Steps to reproduce", "To reproduce", "Example"))), lead,
        script(symptom.snippet, printing=printing), head.format(rng.choice(("Expected", "Expected result"))), right,
        head.format(rng.choice(("Actual", "Actual result", "What happens instead"))), came,
    ).rstrip()  # fmt: skip


def _commented(symptom: Symptom, lead: str, rng: random.Random) -> str:
    """A script with the result in a comment, for short results on one line."""
    printing, expected, got = _printed(symptom)
    right, came = (error_of(symptom.expected) if symptom.expected.raised else expected), got
    if symptom.got.raised:
        came = error_of(symptom.got)
    if len(f"{right}{came}") > 60 or "\n" in f"{right}{came}" or not right.strip() or not came.strip():
        return _plain(symptom, lead, rng)
    if right != right.strip() or came != came.strip() or (symptom.got.raised and symptom.expected.quiet):
        return _plain(symptom, lead, rng)
    if symptom.got.raised:
        comment = f"{came}, should {'be' if symptom.expected.raised else 'print'} {right}"
    elif symptom.expected.raised:
        comment = f"should raise {right}" + (
            f", but prints {came}" if symptom.got.type != "NoneType" else ", but doesn't"
        )
    else:
        comment = rng.choice(
            ("prints {came}, should be {wanted}", "{came}, but {wanted} is right", "expected {wanted}, got {came}")
        )
        comment = comment.format(came=came, wanted=right)
    if len(symptom.snippet.end) + len(comment) > _LINE:
        return _plain(symptom, lead, rng)
    return _joined(lead, script(symptom.snippet, printing=printing, comment=comment)).rstrip()


def _typed(symptom: Symptom, lead: str, rng: random.Random) -> str:
    """A session of the interpreter."""
    expected, got = symptom.expected, symptom.got
    answers = any(isinstance(node, ast.Expr) for item in symptom.snippet.setup for node in ast.walk(item))
    if answers or (expected.quiet and expected.type != "NoneType"):  # the session would print values that are not shown
        return _plain(symptom, lead, rng)
    lines = got.printed.rstrip("\n").split("\n") if got.printed else []
    if got.raised:
        lines += traceback_of(got).split("\n")
    elif got.type != "NoneType":
        lines.append(got.repr)
    if expected.raised and got.raised:
        after = f"That should be {_an(expected)} `{error_of(expected)}`."
    elif expected.raised:
        after = f"I expected {_an(expected)} `{error_of(expected)}` here."
    elif expected.quiet and got.raised:
        after = rng.choice(("There should be no error.", "This should just work."))
    else:
        right = expected.printed + ("" if expected.type == "NoneType" else expected.repr)
        after = rng.choice(("Expected: {}", "The last line should be {}.", "I would expect {}.", "It should be {}."))
        after = f"Expected:\n\n{_quoted(right)}" if "\n" in _quoted(right) else after.format(_quoted(right))
        after = f"There is no output at all. {after}" if got.type == "NoneType" and not got.printed else after
    return _joined(lead, session(symptom.snippet, lines), after).rstrip()


def _asserted(symptom: Symptom, lead: str, rng: random.Random) -> str:
    """An assertion that fails; for results that can be written down."""
    expected, got = symptom.expected, symptom.got
    if expected.raised or expected.quiet or expected.printed or got.printed or not _is_literal(expected.repr):
        return _plain(symptom, lead, rng)
    if len(symptom.snippet.end) + len(expected.repr) > _LINE:
        return _plain(symptom, lead, rng)
    value = expected.repr
    printing = f"assert {{}} {'is' if value in ('None', 'True', 'False') else '=='} {value}"
    if value in ("True", "False") and isinstance(symptom.snippet.last, ast.Compare | ast.BoolOp):
        printing = "assert {}" if value == "True" else "assert not ({})"
    if got.raised:
        after = rng.choice(("This should pass, but ends with", "Instead of passing, this gives", "I get this instead:"))
        after = f"{after.rstrip(':')}:\n\n{fenced(traceback_of(got))}"
    elif "{} " in printing and got.type != "bool":
        after = rng.choice(
            ("The assertion fails: it is {}", "This fails; the left side is {}", "Fails for me, I get {}")
        )
        after = after.format(_quoted(got.repr)) + ("" if "\n" in _quoted(got.repr) else ".")
    else:
        after = rng.choice(
            ("The assertion fails.", "This assertion should hold, but fails.", "This fails with an `AssertionError`.")
        )
    return _joined(lead, script(symptom.snippet, printing=printing), after).rstrip()


Form = Callable[[Symptom, str, random.Random], str]
_FORMS: tuple[Form, ...] = (_plain, _plain, _headed, _commented, _typed, _typed, _asserted)


def _printed(symptom: Symptom) -> tuple[str, str, str]:
    """Return how a script prints the last expression, its expected output and its actual output."""
    expected, got = symptom.expected, symptom.got
    if {expected.type, got.type} <= {"NoneType", ""} or (got.raised and expected.quiet):  # nothing to print
        return "{}", expected.printed, got.printed
    if expected.raised and got.raised:
        return "{}", "", ""
    as_repr = expected.str == got.str or any(_needs_repr(result) for result in (expected, got))
    printing = "print(repr({}))" if as_repr else PRINT
    right, came = ((result.repr if as_repr else result.str) for result in (expected, got))
    return printing, f"{expected.printed}{right}", f"{got.printed}{came}"


def _needs_repr(result: SnippetResult) -> bool:
    """Whether printing would hide part of a text."""
    lines = result.str.split("\n")
    return result.type == "str" and (not result.str.strip() or any(line != line.strip() for line in lines))


def _sentences(symptom: Symptom, expected: str, got: str, rng: random.Random) -> str:
    fault = fault_of(symptom.expected, symptom.got)
    raised, expected_error = error_of(symptom.got), error_of(symptom.expected)
    if fault is Fault.MESSAGE:
        return f"The error says\n\n{fenced(raised)}\n\nwhere it should say\n\n{fenced(expected_error)}"
    if fault is Fault.OTHER_ERROR:
        return rng.choice(
            ("This raises `{got}`, but it should be `{expected}`.", "I expected `{expected}`, but I get `{got}`.",
             "`{expected}` would be right here. What I get is `{got}`.")
        ).format(got=raised, expected=expected_error)  # fmt: skip
    if fault is Fault.SILENT:
        text = rng.choice(
            ("I expected `{expected}`, but no error is raised", "This should raise `{expected}`. It does not",
             "There should be an error (`{expected}`), but there is none")
        ).format(expected=expected_error)  # fmt: skip
        return (
            f"{text}; it prints {_quoted(got)}."
            if symptom.got.type != "NoneType" and "\n" not in _quoted(got)
            else f"{text}."
        )
    if fault is Fault.CRASH:
        return _crash(symptom, expected, rng)
    if "\n" in f"{_quoted(expected)}{_quoted(got)}" or len(f"{expected}{got}") > _INLINE:
        return rng.choice(
            ("Expected:\n\n{expected}\n\nActual:\n\n{got}", "It prints\n\n{got}\n\nbut should print\n\n{expected}",
             "What I get:\n\n{got}\n\nWhat I expect:\n\n{expected}")
        ).format(expected=fenced(expected), got=fenced(got))  # fmt: skip
    return rng.choice(
        ("This prints {got}. It should print {expected}.", "I get {got}, but expected {expected}.",
         "Expected {expected}, got {got}.", "The output is {got}; {expected} would be right.")
    ).format(expected=_quoted(expected), got=_quoted(got))  # fmt: skip


def _crash(symptom: Symptom, expected: str, rng: random.Random) -> str:
    trace = fenced(traceback_of(symptom.got))
    if symptom.expected.quiet and not expected:
        return rng.choice(("This should work, but ends with", "No error expected here. I get")) + f"\n\n{trace}"
    if rng.random() < 0.4 and "\n" not in _quoted(expected) and "`" not in error_of(symptom.got):
        return rng.choice(
            ("This fails with `{error}`. It should print {expected}.", "I get `{error}` instead of {expected}.")
        ).format(error=error_of(symptom.got), expected=_quoted(expected))
    if "\n" in _quoted(expected):
        return rng.choice(
            (
                "Expected output:\n\n{expected}\n\nInstead it fails:\n\n{trace}",
                "This ends with\n\n{trace}\n\nIt should print\n\n{expected}",
            )
        ).format(expected=_quoted(expected), trace=trace)
    return rng.choice(
        ("It should print {expected}, but I get\n\n{trace}", "This ends with\n\n{trace}\n\nI expected {expected}.",
         "Expected {expected}. Instead:\n\n{trace}")
    ).format(expected=_quoted(expected), trace=trace)  # fmt: skip


def _quoted(text: str) -> str:
    """Return a text as inline code, or as a block if it does not fit into a sentence."""
    if "\n" in text or len(text) > _INLINE or "`" in text or not text.strip():
        return f"\n\n{fenced(text)}\n\n".strip("\n") if text.strip() else "nothing"
    return f"`{text}`"


def _an(result: SnippetResult) -> str:
    sounds = result.raised[:1] in "AEIO" or (result.raised.startswith("Un") and not result.raised.startswith("Uni"))
    return "an" if sounds else "a"


def _is_literal(text: str) -> bool:
    try:
        return repr(literal(text)) == text
    except (ValueError, SyntaxError):
        return False
