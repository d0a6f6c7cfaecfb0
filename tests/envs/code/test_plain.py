"""Values that leave a sandbox: plain data without loss, and nothing with behaviour of its own."""

from __future__ import annotations

import math
from collections import Counter, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from agentgym.envs.code.plain import NotPlain, dumps, loads
from agentgym.envs.code.verdict import matches

PLAIN: list[Any] = [
    None, True, -7, 2**80, 1.5, "é\ud800", b"\x00", bytearray(b"\x01"), [1, (2,)], {(1, 2): {3}}, frozenset("a"),
    range(3), 2j, Decimal("-1.50"), Fraction(-1, 3), deque([1, [2]]), {"a": 1}.keys(), {"a": [1]}.items(),
]  # fmt: skip
LIKE_PLAIN: list[tuple[Any, Any]] = [
    (Counter("aab"), {"a": 2, "b": 1}),
    ((n for n in (1, 2)), [1, 2]),
]


def test_plain_values_are_transferred_without_loss():
    copies = [loads(dumps(value)) for value in PLAIN]
    assert copies == PLAIN
    assert list(map(type, copies)) == list(map(type, PLAIN))


def test_values_like_plain_ones_are_transferred_as_these():
    copies = [loads(dumps(value)) for value, _ in LIKE_PLAIN]
    assert [copy if isinstance(copy, dict) else list(copy) for copy in copies] == [value for _, value in LIKE_PLAIN]


def test_subclasses_lose_their_overrides():
    for base in (int, float, str, bytes, tuple, list, dict, frozenset, Decimal, Fraction, complex):
        lies = {"__eq__": lambda self, other: True, "__hash__": base.__hash__, "__ne__": lambda self, other: False}
        sly = type("Sly", (base,), lies)()
        again = loads(dumps([sly]))[0]
        assert type(again) is base
        assert not matches(again, "anything")
        assert not matches(again, [7])


def test_other_values_and_other_texts_are_refused():
    ring: list[Any] = []
    ring.append(ring)
    for value in (ring, object(), lambda: None, int, math, ..., Decimal("sNaN")):
        with pytest.raises(NotPlain):
            loads(dumps(value))
    for text in (
        *("", "{}", "[]", "1.5", '["?"]', '["d", [1]]', '["s", ["l"]]', '["k", ["l"]]', '["m", "x"]'),
        *('["m", "1e9999999999999999999"]', '["n", "1", "0"]', "[" * 100_000, '["i", 5]'),
    ):
        with pytest.raises(NotPlain):
            loads(text)
