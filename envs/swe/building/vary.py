"""Gives snippets other values than the tests have, so that an issue does not show a hidden test's own input."""

from __future__ import annotations

import ast
import copy
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agentgym.base.syntax import parse
from agentgym.envs.swe.building.snippet import Snippet

_WORDS = (
    "apple", "bread", "cedar", "delta", "ember", "field", "green", "harbor", "indigo", "lemon", "maple", "north",
    "olive", "paper", "quiet", "river", "stone", "table", "violet", "winter",
)  # fmt: skip
_TOKEN = re.compile(r"\d+|[A-Za-z]+")
_DATE = re.compile(r"^(\d{4})-(\d\d)-(\d\d)$")
_LONGEST = 400
_CUTTING = ("islice", "itertools.islice", "round")
Key = tuple[type, object]
"""A constant; its type distinguishes `1` from `1.0`."""


def literals_of(source: str) -> tuple[str, ...]:
    """Return the short texts in a module, as examples of realistic values."""
    try:
        nodes = list(ast.walk(parse(source)))
    except SyntaxError:
        return ()
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= 30))


def variants(snippet: Snippet, texts: Sequence[str], count: int, rng: random.Random) -> Iterator[Snippet]:
    """Yield snippets with other constants.

    Args:
        snippet: The snippet.
        texts: Texts to take other values from (`literals_of`).
        count: Number of draws; duplicates are dropped.
        rng: Source of the draws.
    """
    snippet = snippet.but(map(_folded, snippet.setup), _folded(snippet.last))
    slices = [node.slice for node in snippet.walk() if isinstance(node, ast.Subscript)]
    places = {id(node) for subscript in slices if not _is_key(subscript) for node in ast.walk(subscript)}
    constants = [node for node in snippet.walk() if _varies(node) and id(node) not in places]
    typed_values = ((type(node.value), node.value) for node in constants if isinstance(node, ast.Constant))
    keys: list[Key] = list(dict.fromkeys(typed_values))
    yielded_codes = {snippet.code}
    if not keys:
        yield from _other_empties(snippet)
    for number in range(count if keys else 0):
        share = (0.9, 0.6, 0.35, 0.15)[number % 4]
        changed_keys = [key for key in keys if rng.random() < share] or [rng.choice(keys)]
        words: dict[str, str] = {}
        values: dict[Key, object] = {key: _other(key[1], texts, words, rng) for key in changed_keys}
        if not _stay_apart(keys, values):
            continue
        change = _Changed(values)
        changed = snippet.but(
            [change.visit(copy.deepcopy(item)) for item in snippet.setup], change.visit(copy.deepcopy(snippet.last))
        )
        if changed.code not in yielded_codes and _uncut(changed) != _uncut(snippet):
            yielded_codes.add(changed.code)
            yield changed


NodeT = TypeVar("NodeT", bound=ast.AST)


def _folded(node: NodeT) -> NodeT:
    """Return code with negative numbers as constants."""
    return _Folded().visit(copy.deepcopy(node))


class _Folded(ast.NodeTransformer):
    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        value = node.operand.value if isinstance(node.operand, ast.Constant) else None
        if isinstance(node.op, ast.USub) and isinstance(value, int | float) and not isinstance(value, bool):
            return ast.copy_location(ast.Constant(value=-value), node)
        return self.generic_visit(node)


@dataclass
class _Changed(ast.NodeTransformer):
    values: Mapping[Key, object]

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        node.value = self.visit(node.value)
        if _is_key(node.slice):  # places stay
            node.slice = self.visit(node.slice)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        key = (type(node.value), node.value)
        if key not in self.values:
            return node
        return ast.copy_location(ast.Constant(value=self.values[key]), node)  # type: ignore[arg-type]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func).endswith("sleep"):
            node.args = [_at_most_one(item) for item in node.args]
            return node
        return self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        return node


def _other_empties(snippet: Snippet) -> Iterator[Snippet]:
    """Yield the snippet with an empty tuple for an empty list that is an argument, if there is one."""
    last = copy.deepcopy(snippet.last)
    for call in [node for node in ast.walk(last) if isinstance(node, ast.Call)]:
        for place, item in enumerate(call.args):
            if isinstance(item, ast.List) and not item.elts:
                call.args[place] = ast.Tuple(elts=[], ctx=ast.Load())
                yield snippet.but(snippet.setup, last)
                return


def _at_most_one(node: ast.expr) -> ast.expr:
    """Return a shorter wait: people do not report bugs with slow code."""
    value = node.value if isinstance(node, ast.Constant) else 0
    return ast.Constant(value=1) if isinstance(value, int | float) and value > 1 else node


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _varies(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return False
    return isinstance(node.value, int | float) or (isinstance(node.value, str) and 0 < len(node.value) <= _LONGEST)


def _uncut(snippet: Snippet) -> str:
    """Return a snippet's code without the numbers that only limit or round the shown result."""
    copied = snippet.but(copy.deepcopy(snippet.setup), copy.deepcopy(snippet.last))
    for call in [node for node in copied.walk() if isinstance(node, ast.Call)]:
        if ast.unparse(call.func) in _CUTTING:
            call.args = call.args[:1]
    return copied.code


def _stay_apart(keys: Sequence[Key], values: Mapping[Key, object]) -> bool:
    """Whether different texts stay different: merging two names would change the example."""
    texts = [key for key in keys if key[0] is str]
    return len({values.get(key, key[1]) for key in texts}) == len(texts)


def _other(value: object, texts: Sequence[str], words: dict[str, str], rng: random.Random) -> object:
    if isinstance(value, int):
        return _other_int(value, rng)
    if isinstance(value, float):
        if abs(value) < 1:
            return round(value * rng.choice((0.5, 2, 3)), 6)
        return round(value + rng.choice((-1, 1)) * rng.choice((0.25, 0.5, 1)), 6)
    text = str(value)
    date = _DATE.match(text)
    if date:
        return f"{int(date[1]) + rng.choice((-1, 0, 1))}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    if not _TOKEN.search(text):
        word = rng.choice(_WORDS)
        return rng.choice((f"{word} {text}", f"{text} {word}", text + text))
    like = [item for item in texts if _shape(item) == _shape(text) and item != text]
    if like and rng.random() < 0.5:
        return rng.choice(like)
    return _TOKEN.sub(lambda match: _other_token(match[0], texts, words, rng), text)


def _other_int(value: int, rng: random.Random) -> int:
    if 1900 <= value <= 2100:
        return value + rng.choice((-3, -2, -1, 1, 2, 3))
    if value in (0, 1) and rng.random() < 0.5:
        return value
    if abs(value) >= 100:
        return value + rng.choice((-1, 1)) * rng.choice((1, 5, 10, 25, 50)) * 10 ** (len(str(abs(value))) - 3)
    other = value + rng.choice((-2, -1, 1, 2, 3, 4, 5))
    return max(0, other) if value >= 0 else other


def _other_token(token: str, texts: Sequence[str], words: dict[str, str], rng: random.Random) -> str:
    """Return another number or word; words are replaced alike wherever they occur."""
    if token not in words:
        if token.isdigit():
            changed = (
                str(rng.randint(1, 9)) if len(token) == 1 else str(max(0, int(token) + rng.choice((-2, -1, 1, 2))))
            )
            words[token] = changed.zfill(len(token)) if token.startswith("0") or len(changed) < len(token) else changed
        elif len(token) == 1:
            letters = string.ascii_lowercase if token.islower() else string.ascii_uppercase
            words[token] = rng.choice(letters)
        elif rng.random() < 0.5:
            words[token] = token
        else:
            near = [item for item in texts if item.isalpha() and len(item) > 2 and item != token] or list(_WORDS)
            words[token] = _cased(rng.choice([*near, *_WORDS]), token)
    return words[token]


def _cased(word: str, like: str) -> str:
    return word.upper() if like.isupper() else word.capitalize() if like[:1].isupper() else word.lower()


def _shape(text: str) -> str:
    """Return a text with every word and number replaced by its kind."""
    return re.sub(r"[A-Za-z]+", "w", re.sub(r"\d+", "0", text))
