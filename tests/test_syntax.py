"""Threads may parse Python at the same time, whatever the interpreter counts."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.syntax import parse

SOURCE = "\n".join(
    f"def f{n}(a, b=(1, [2, {{3}}])):\n    return [x + {n} for x in a if not (x or b)]" for n in range(150)
)


class Slow:
    """Garbage that takes a while to be collected, so that threads take turns in the middle of making a tree."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(200))


@pytest.fixture
def _many_turns() -> Iterator[None]:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("_many_turns")
def test_threads_can_parse_at_the_same_time():
    def work(_: int) -> str:
        Slow()
        return type(parse(SOURCE)).__name__

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(80))) == {"Module"}


def test_what_is_returned_is_what_the_standard_library_makes():
    assert ast.dump(parse(SOURCE)) == ast.dump(ast.parse(SOURCE))
    assert ast.dump(parse("1 + x", mode="eval")) == ast.dump(ast.parse("1 + x", mode="eval"))
    with pytest.raises(SyntaxError):
        parse("1 +")
