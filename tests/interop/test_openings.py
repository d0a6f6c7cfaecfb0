"""Rows of other trainers' data sets name episodes that can be found again."""

from __future__ import annotations

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.messages import text_of
from agentgym.core.registry import make
from agentgym.interop.openings import episode_named, openings
from tests.rows import each_row


def test_the_columns_of_an_opening_name_its_episode():
    *_, opening = openings("guess", split="train", start=3, count=2, seed=50)
    assert (opening.index, opening.seed) == (4, 54)
    task_id, seed = episode_named(opening.named, "rows")
    messages, _ = make("guess").reset(seed=seed, options={"task": task_id})
    assert [message["content"] for message in opening.prompt] == [text_of(message) for message in messages]


@each_row("row", [{}, {"task_id": "guess/train/0"}, {"seed": 1}])
def test_a_row_that_names_no_episode_is_refused_with_the_function_that_makes_rows(row: dict[str, object]):
    with pytest.raises(UsageError, match=r"the row needs task_id and seed: make the rows with maker\.rows"):
        episode_named(row, "maker.rows")
