"""`agentgym new`: write a small working environment and its tests as a starting point."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from agentgym.base.errors import UsageError

_LONGEST = 60
"""Maximum length of a module name, below that of file names."""

_MODULE = '''\
"""{title}: a new environment. Edit it, then run: agentgym check {module}:{cls}"""

from __future__ import annotations

import random

from agentgym import Channel, Env, Gate, GeneratedTasks, Reason, Scheme, Solution, Task, ToolCall, ToolError
from agentgym.core.task import split_of
from agentgym.core.toolset import tool

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll", "lotus")
SHARES = {{"train": 0.8, "validation": 0.1, "test": 0.1}}


def make_task(split: str, index: int) -> Task:
    """Return task number `index` of `split`, always the same one."""
    dice = random.Random(f"{module}/{{split}}/{{index}}")
    while True:
        word, *others = dice.sample(WORDS, 4)
        # All counts are equally frequent, so that no constant answer is worth learning.
        words = [word] * dice.randint(0, 6) + dice.choices(others, k=dice.randint(3, 4))
        dice.shuffle(words)
        # The content of a task decides its split, so that no two splits share a task.
        if split_of(" ".join(words), SHARES) == split:
            break
    return Task(
        id=f"{module}/{{split}}/{{index}}",
        split=split,
        prompt=f"How often does the word {{word!r}} appear on the list? Read the list, then answer.",
        difficulty=1 if len(words) < 6 else 2,
        data={{"words": words}},
        gold={{"count": words.count(word)}},
    )


class {cls}(Env):
    """{title}: count a word on a list.

    Task: a list of words and one of them.
    Tools: `read(position)`, `answer(count)`.
    Reward: `outcome` 1 for the right count, and up to 0.2 for the words read, so that honest failures are paid too.
    Episode end: an answer was given, or 12 turns have passed.
    """

    channels = {{
        "outcome": Channel("1 if the count was right"),
        "read": Channel("share of the list that was read for the first time", per_turn=True),
        "answered": Channel("1 if an answer was given", cheap=True),
    }}
    # Reading is paid only in episodes that answer. A `cheap` channel can be earned by any episode: it may open a gate,
    # but pays only behind a gate on real work (`agentgym.core.rewards.lint`).
    scheme = Scheme(
        weights={{"outcome": 1.0, "read": 0.2}},
        gates=(Gate(on="answered", at_least=1.0, opens=("read",)),),
        capped={{"read": 1.0}},
    )
    states_turns = True
    max_turns = 12

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        """Return an endless source of tasks."""
        return GeneratedTasks("{module}", make_task, dict.fromkeys(SHARES))

    def start(self, task: Task) -> None:
        """Start with no word read."""
        self.seen: set[int] = set()

    @tool
    def read(self, position: int) -> str:
        """Read one word of the list.

        Args:
            position: Its place, from 1.
        """
        words = self.task.data["words"]
        if not 1 <= position <= len(words):
            raise ToolError(f"The list has places 1 to {{len(words)}}; there is no place {{position}}.")
        if position not in self.seen:
            self.seen.add(position)
            self.reward("read", 1 / len(words))
        return words[position - 1]

    @tool
    def answer(self, count: int) -> str:
        """Give the answer. This ends the episode.

        Args:
            count: How often the word appears.
        """
        self.reward("answered", 1.0)
        self.reward("outcome", float(count == self.task.gold["count"]))
        self.finish(Reason.ANSWERED)
        return "Thank you."

    def solution(self, task: Task) -> Solution:
        """Read the whole list, then answer."""
        for position in range(1, len(task.data["words"]) + 1):
            yield ToolCall("read", {{"position": position}})
        yield ToolCall("answer", {{"count": task.gold["count"]}})
'''

_TEST = '''\
"""Tests of {module}.py. Run: pytest {test}"""

from __future__ import annotations

import pytest
from {module} import {cls}

from agentgym import ToolCall
from agentgym.check import Report, check_names, run_checks
from agentgym.core.messages import assistant, text_of


@pytest.fixture(scope="module")
def report() -> Report:
    return run_checks("{module}:{cls}")


@pytest.mark.parametrize("name", check_names())
def test_guarantee(report: Report, name: str):
    row = report.row(name)
    assert row.status in ("pass", "warn", "skip"), row.message


def test_a_wrong_answer_earns_nothing():
    env = {cls}()
    env.reset(seed=0)
    result = env.step(assistant("", [ToolCall("answer", {{"count": 99}})]))
    assert (result.reward, result.terminated) == (0.0, True)


def test_reading_is_paid_once_and_only_with_an_answer():
    env = {cls}()
    env.reset(seed=0)
    share = 1 / len(env.task.data["words"])
    for _ in range(2):
        assert env.step(assistant("", [ToolCall("read", {{"position": 1}})])).reward == 0.0
    result = env.step(assistant("", [ToolCall("answer", {{"count": 99}})]))
    assert result.reward == pytest.approx(0.2 * share)


def test_a_wrong_position_is_explained():
    env = {cls}()
    env.reset(seed=0)
    result = env.step(assistant("", [ToolCall("read", {{"position": 0}})]))
    assert "The list has places 1 to" in text_of(result.observation[0])
    assert not result.terminated
'''


@dataclass(frozen=True)
class Scaffold:
    """The files that were written."""

    module: Path
    test: Path
    target: str
    """`module:Class`, the form that all commands accept."""


def write_scaffold(name: str, folder: Path) -> Scaffold:
    """Write an environment called `name` and its tests into `folder`, which is created if needed.

    Raises:
        UsageError: The name is not valid for a module, or a file already exists or cannot be written.
    """
    module = _module_name(name)
    cls = "".join(part.capitalize() for part in module.split("_")) + "Env"
    scaffold = Scaffold(folder / f"{module}.py", folder / f"test_{module}.py", f"{module}:{cls}")
    for path in (scaffold.module, scaffold.test):
        if path.exists():
            raise UsageError(f"{str(path)!r} exists already; choose another name, or another folder with --path")
    values = {"module": module, "cls": cls, "title": module.replace("_", " ").capitalize(), "test": scaffold.test.name}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scaffold.module.write_text(_MODULE.format(**values), encoding="utf-8")
        scaffold.test.write_text(_TEST.format(**values), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error
    return scaffold


def _module_name(name: str) -> str:
    """Return the module name for `name` (`word-count`, `WordCount`, `word count`)."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    module = re.sub(r"[\s_-]+", "_", snake).lower().removesuffix("_env").strip("_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        raise UsageError(
            f"{name!r} is not a valid module name; use a letter, then letters, digits and dashes, e.g. 'word-count'"
        )
    if len(module) > _LONGEST:
        raise UsageError(f"{name[:_LONGEST]!r}… is too long for a module name; use at most {_LONGEST} characters")
    if module == "test" or module.startswith("test_"):
        raise UsageError(f"pytest would collect the module {module!r} as tests; choose another name")
    if module in sys.stdlib_module_names or module == "agentgym":
        raise UsageError(f"{name!r} would shadow the module {module!r}; choose another name")
    return module
