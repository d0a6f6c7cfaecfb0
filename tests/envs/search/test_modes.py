"""Modes of the search environment: their names, their extensions, and their separate state per environment."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from agentgym import Task, ToolCall
from agentgym.base.errors import ToolError, UsageError
from agentgym.base.settings import parse_settings
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.making import make_env
from agentgym.core.messages import text_of
from agentgym.core.rewards import Channel
from agentgym.core.toolset import tool
from agentgym.envs.search import Deciding, Judging, Mode, ModePart, SearchEnv, Simulating
from agentgym.envs.search.deciding import Decider
from agentgym.envs.search.judging import ResultsJudge
from agentgym.tools.index import Index, MemoryIndex
from tests.envs.search.pages import PAGES, TASKS, searching
from tests.played import call, play_episode, said
from tests.refusals import not_refused

TASK = TASKS.find("q/0")
PLAIN = ("search", "open", "more", "find", "answer")


def reply(env: Env, name: str, **arguments: Any) -> str:
    return said(call(env, name, **arguments))


@dataclass(frozen=True)
class Hinting(Mode):
    """Let the policy ask for hints."""

    most: int = 1

    rule = "Ask for a hint if you are stuck."
    channels = {"hints": Channel("1 for a hint", per_turn=True)}

    def part(self, env: Env) -> ModePart:
        return Hints(env, self.most)


class Hints(ModePart):
    """Gives hints, and searches one page only."""

    remaining = 0

    def __init__(self, env: Env, most: int):
        super().__init__(env)
        self._most = most

    def begin(self) -> None:
        self.remaining = self._most

    def index_for(self, task: Task, index: Index) -> Index:
        return MemoryIndex([page for page in PAGES if page.id == "veld"])

    def check(self, tool: str) -> None:
        if tool == "answer" and self.remaining == self._most:
            raise ToolError("Ask for a hint before you answer.")

    @tool
    def hint(self, about: str) -> str:
        """Ask for a hint.

        Args:
            about: Subject of the hint.
        """
        self.remaining -= 1
        self.env.reward("hints", 1.0)
        return f"Nothing is known of {about}."

    def opening_steps(self, task: Task) -> Solution:
        output = yield ToolCall("hint", {"about": "Port Veld"})
        assert "of Port Veld" in text_of(output[0])


SETTINGS: dict[str, Any] = {
    "mode=reseek": Judging(),
    "mode={name: adasearch, needs_search: {q/0: false}}": Deciding({"q/0": False}),
    "mode=[{name: zerosearch, total: 7, end: 1.0}, reseek]": [Simulating(total=7, end=1.0), Judging()],
    "mode=null": None,
}


def test_modes_are_named_on_the_command_line_as_in_python():
    for setting, mode in SETTINGS.items():
        named, expected = make_env("search", {**parse_settings([setting]), "tasks": TASKS}), searching(mode=mode)
        assert (named.system_prompt, named.tools.schemas) == (expected.system_prompt, expected.tools.schemas)
    plain = searching()
    assert plain.tools.names == PLAIN
    assert not any(word in plain.system_prompt.lower() for word in ("judge", "decide"))
    both, turned = searching(mode=["adasearch", "reseek"]), searching(mode=["reseek", "adasearch"])
    assert both.system_prompt == turned.system_prompt
    assert both.system_prompt.startswith("First decide")
    assert both.tools.names == turned.tools.names == ("decide", *PLAIN, "judge")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mode": "resek"}, "did you mean 'reseek'"),
    ({"mode": {"name": "zerosearch", "totl": 3}}, "did you mean 'total'"),
    ({"mode": {"total": 3}}, "mode must be one of reseek, adasearch, zerosearch"),
    ({"mode": ["reseek", Judging()]}, "each mode can be given once"),
    ({"mode": {"name": "reseek", "scorer": "rerank"}}, "must be a function, not 'rerank'"),
    ({"mode": {"name": "adasearch", "needs_search": "labels.json"}}, "true or false for each task id"),
    ({"judge": True}, "the argument 'judge' was removed; pass mode="),
]


def test_an_invalid_mode_is_refused_in_one_line():
    assert not_refused(lambda arguments: searching(**arguments), REFUSED) == []


def test_environments_that_share_a_mode_do_not_share_an_episode():
    mode = [Judging(), Deciding()]
    first, second = searching(mode=mode), searching(mode=mode)
    for env in (first, second):
        env.reset(seed=0)
    reply(first, "decide", way="search")
    reply(first, "search", query="Port Veld")
    assert (first.part(ResultsJudge).pending, second.part(ResultsJudge).pending) == (True, False)
    assert reply(second, "search", query="Port Veld").startswith("Error: First decide")
    with pytest.raises(UsageError, match="Decider"):
        searching(mode="reseek").part(Decider)
    copy = pickle.loads(pickle.dumps(first))
    assert reply(copy, "search", query="Tam").startswith("Error: First judge")
    assert reply(copy, "judge", useful=True) == "Go on."
    assert first.part(ResultsJudge).pending
    first.reset(seed=0)
    assert reply(first, "decide", way="search") == "Go on."
    assert reply(first, "judge", useful=True).startswith("Error: There are no new results")


def test_a_custom_mode_adds_tools_rules_rewards_and_steps():
    env = searching(mode=Hinting(most=2))
    assert env.tools.names == (*PLAIN, "hint")
    assert "Ask for a hint if you are stuck." in env.system_prompt
    for name, arguments, words in (
        ("answer", {"text": "Lisk"}, "Ask for a hint before"),
        ("search", {"query": "river Tam"}, "No page matches. Try other words."),
    ):
        env.reset(seed=0)
        assert words in reply(env, name, **arguments)
    result = play_episode(env, TASK, lambda env: env.solution(TASK))  # type: ignore[arg-type, return-value]
    assert result.solved
    assert result.channels["hints"] == 1.0
    assert "hints" not in {*SearchEnv.channels, *searching().channels}
