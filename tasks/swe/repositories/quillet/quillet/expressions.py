"""Expressions: literals, names with dots, comparisons, `and`, `or`, `not`, and filters after bars."""

import re

from quillet.errors import RenderError, TemplateSyntaxError

_LEXEME = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<string>"[^"]*"|'[^']*')|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)"""
    r"""|(?P<operator>==|!=|<=|>=|<|>|\||,|\(|\)))"""
)
_CONSTANTS = {"true": True, "false": False, "none": None}
_COMPARE = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "in": lambda left, right: left in right,
}


def parse_expression(text, line=1):
    """Return a function that computes the expression from a scope and filters."""
    parser = _Parser(_lexemes(text, line), line)
    node = parser.filtered()
    parser.expect_end()
    return node


def lookup(scope, path):
    """Return the value of a dotted name: keys are tried first, then numbers, then attributes."""
    first, *rest = path.split(".")
    if first not in scope:
        raise RenderError(f"{first!r} is not defined")
    value = scope[first]
    for part in rest:
        value = _member(value, part, path)
    return value


def _member(value, part, path):
    try:
        return value[part]
    except (KeyError, TypeError, IndexError):
        pass
    if part.isdigit():
        try:
            return value[int(part)]
        except (KeyError, TypeError, IndexError):
            pass
    if not part.startswith("_") and hasattr(value, part):
        return getattr(value, part)
    raise RenderError(f"{path!r}: there is no {part!r}")


def _lexemes(text, line):
    found = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _LEXEME.match(text, position)
        if match is None:
            raise TemplateSyntaxError(f"cannot read {text[position:]!r}", line)
        found.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return found


class _Parser:
    def __init__(self, lexemes, line):
        self._lexemes = lexemes
        self._line = line
        self._place = 0

    def _peek(self):
        return self._lexemes[self._place] if self._place < len(self._lexemes) else (None, "")

    def _take(self, *values):
        if self._peek()[1] in values and self._peek()[0] in ("operator", "name"):
            self._place += 1
            return self._lexemes[self._place - 1][1]
        return None

    def expect_end(self):
        if self._place < len(self._lexemes):
            raise TemplateSyntaxError(f"unexpected {self._peek()[1]!r}", self._line)

    def filtered(self):
        node = self._either()
        while self._take("|"):
            kind, name = self._peek()
            if kind != "name":
                raise TemplateSyntaxError("a filter's name must follow '|'", self._line)
            self._place += 1
            node = _filter(node, name, self._arguments())
        return node

    def _arguments(self):
        if not self._take("("):
            return []
        arguments = []
        while not self._take(")"):
            if arguments and not self._take(","):
                raise TemplateSyntaxError("arguments need commas between them", self._line)
            arguments.append(self._either())
        return arguments

    def _either(self):
        node = self._both()
        while self._take("or"):
            node = _or(node, self._both())
        return node

    def _both(self):
        node = self._negation()
        while self._take("and"):
            node = _and(node, self._negation())
        return node

    def _negation(self):
        if self._take("not"):
            inner = self._negation()
            return lambda scope, filters: not inner(scope, filters)
        return self._comparison()

    def _comparison(self):
        left = self._atom()
        word = self._take(*_COMPARE)
        if word is None:
            return left
        right, compare = self._atom(), _COMPARE[word]
        return lambda scope, filters: compare(left(scope, filters), right(scope, filters))

    def _atom(self):
        if self._take("("):
            node = self.filtered()
            if not self._take(")"):
                raise TemplateSyntaxError("')' is missing", self._line)
            return node
        kind, text = self._peek()
        if kind not in ("number", "string", "name"):
            raise TemplateSyntaxError(f"a value is missing{f' before {text!r}' if text else ''}", self._line)
        self._place += 1
        if kind == "name" and text not in _CONSTANTS:
            return lambda scope, filters: lookup(scope, text)
        value = _literal(kind, text)
        return lambda scope, filters: value


def _literal(kind, text):
    if kind == "number":
        return float(text) if "." in text else int(text)
    return text[1:-1] if kind == "string" else _CONSTANTS[text]


def _or(left, right):
    return lambda scope, filters: left(scope, filters) or right(scope, filters)


def _and(left, right):
    return lambda scope, filters: left(scope, filters) and right(scope, filters)


def _filter(node, name, arguments):
    def apply(scope, filters):
        if name not in filters:
            raise RenderError(f"there is no filter {name!r}")
        try:
            value = node(scope, filters)
        except RenderError:
            # A default is for names that are not defined, too.
            if name != "default":
                raise
            value = None
        return filters[name](value, *(argument(scope, filters) for argument in arguments))

    return apply
