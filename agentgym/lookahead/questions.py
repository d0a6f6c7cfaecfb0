"""What a judge is asked, and how its answers are read: strictly, so that none is guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentgym.lookahead.candidate import Candidate

MOST_CHARS = 24_000
"""Characters of a conversation that a judge is shown; the middle of a longer one is left out."""

_SCORE = re.compile(r"score:\s*(10|\d(?:\.\d+)?)(?:\s*/\s*10)?\.?", re.IGNORECASE)
_BEST = re.compile(r"best:\s*(\d+)\.?", re.IGNORECASE)

_TO_SCORE = """An assistant works on a task with tools. Here is the conversation so far:

{conversation}

{state} How likely is it that the assistant solves the task this way? Think, then end with a line of this form, with a \
number from 0 (surely not) to 10 (surely):
Score: NUMBER"""

_TO_VOTE = """Assistants worked on the same task with tools, each in its own way.

{candidates}

Which of them solves the task most likely? Think, then end with a line of this form, with one of the numbers above:
Best: NUMBER"""


def to_score(candidate: Candidate) -> str:
    """Return the question for the score of one line."""
    state = "It has ended." if candidate.is_over else "It goes on."
    return _TO_SCORE.format(conversation=_cut(candidate.conversation), state=state)


def to_vote(candidates: Sequence[Candidate]) -> str:
    """Return the question for the best of several lines."""
    room = MOST_CHARS // max(1, len(candidates))
    parts = [f"# Assistant {number}\n{_cut(one.conversation, room)}" for number, one in enumerate(candidates, start=1)]
    return _TO_VOTE.format(candidates="\n\n".join(parts))


def score_in(text: str) -> float | None:
    """Return the score from 0 to 1 on the last line; `None` if it is not of the form that was asked for."""
    found = _SCORE.fullmatch(_last_line(text))
    return float(found[1]) / 10 if found else None


def best_in(text: str, of: int) -> int | None:
    """Return the chosen candidate, counted from 0, on the last line; `None` if there is no such."""
    found = _BEST.fullmatch(_last_line(text))
    number = int(found[1]) if found else 0
    return number - 1 if 1 <= number <= of else None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip().strip("*").strip() if lines else ""


def _cut(text: str, most: int = MOST_CHARS) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n[…]\n{text[-most // 2 :]}"
