"""Modes of the search environment: how they are named, what they may add, and that each environment plays its own."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from agentgym import Task, TaskList, ToolCall
from agentgym.commands.options import make_env
from agentgym.engine.steps import Solution
from agentgym.env import Env
from agentgym.envs.search import Deciding, Judging, Mode, Part, SearchEnv, Simulating
from agentgym.envs.search.deciding import Decider
from agentgym.envs.search.judging import Judge
from agentgym.errors import ToolError, UsageError
from agentgym.messages import assistant, text_of
from agentgym.policy import ScriptedPolicy
from agentgym.records.replay import replay
from agentgym.rewards import Channel, Gate, Scheme
from agentgym.rollout import EnvFactory, Job, collect
from agentgym.settings import parse_settings
from agentgym.tools.index import Document, Index, MemoryIndex
from agentgym.toolset import tool
from agentgym.trajectory import Trajectory
from tests.played import calls, played

PAGES = [
    Document("veld", "Port Veld", "Port Veld is a harbour town. Its mayor is Ana Orn."),
    Document("tam", "Tam", "The Tam is a river."),
]
HOPS = [{"query": "mayor of Port Veld", "document": "veld"}]
GOLD = {"answers": ["Ana Orn"], "evidence": ["veld"], "unanswerable": False, "hops": HOPS}
TASK = Task("q/0", "train", "Who is the mayor of Port Veld?", gold=GOLD)
TASKS = TaskList([TASK])
PLAIN = ("search", "open", "more", "find", "answer")


def searching(**kwargs: Any) -> SearchEnv:
    return SearchEnv(index=MemoryIndex(PAGES), tasks=TASKS, **kwargs)


def call(env: Env, name: str, **arguments: Any) -> str:
    return text_of(env.step(assistant("", [ToolCall(name, arguments)])).observation[0])


@dataclass(frozen=True)
class Hinting(Mode):
    """Let the policy ask for hints, but no more often than allowed, and never after the first page."""

    most: int = 1

    rule = "Ask for a hint if you are stuck."
    channels = {"hints": Channel("1 for a hint", per_turn=True)}

    def part(self, env: Env) -> Part:
        return Hints(env, self.most)

    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        return {"hints": sum(turn.rewards.get("hints", 0.0) for t in trajectories for turn in t.turns)}


class Hints(Part):
    """Gives hints, and shows nothing of the river."""

    left = 0

    def __init__(self, env: Env, most: int):
        super().__init__(env)
        self._most = most

    def begin(self) -> None:
        self.left = self._most

    def index_for(self, task: Task, index: Index) -> Index:
        return MemoryIndex([page for page in PAGES if page.id != "tam"])

    def check(self, tool: str) -> None:
        if tool == "answer" and self.left == self._most:
            raise ToolError("Ask for a hint before you answer.")

    @tool
    def hint(self, about: str) -> str:
        """Ask for a hint.

        Args:
            about: What it should be about.
        """
        self.left -= 1
        self.env.reward("hints", 1.0)
        return f"Nothing is known of {about}."

    def opening_steps(self, task: Task) -> Solution:
        shown = yield ToolCall("hint", {"about": "Port Veld"})
        assert "of Port Veld" in text_of(shown[0])


class HintedSearchEnv(SearchEnv):
    """The search environment with a mode that can be named."""

    modes = {**SearchEnv.modes, "hints": Hinting}


def test_without_a_mode_there_are_only_the_tools_of_searching():
    env = searching()
    assert env.tools.names == PLAIN
    assert "judge" not in env.system_prompt.lower()
    assert "decide" not in env.system_prompt.lower()


@pytest.mark.parametrize(
    ("setting", "mode"),
    [
        ("mode=reseek", Judging()),
        ("mode={name: adasearch}", Deciding()),
        ("mode={name: adasearch, needs_search: {q/0: false}}", Deciding({"q/0": False})),
        ("mode=[{name: zerosearch, total: 7, end: 1.0}, reseek]", [Simulating(total=7, end=1.0), Judging()]),
        ("mode=null", None),
    ],
)
def test_what_is_set_on_the_command_line_is_what_python_gives(setting: str, mode: Any):
    named = make_env("search", {**parse_settings([setting]), "tasks": TASKS})
    given = searching(mode=mode)
    assert (named.system_prompt, named.tools.schemas) == (given.system_prompt, given.tools.schemas)


def test_the_order_in_which_modes_are_given_changes_nothing():
    one, other = searching(mode=["adasearch", "reseek"]), searching(mode=["reseek", "adasearch"])
    assert one.system_prompt == other.system_prompt
    assert one.system_prompt.startswith("First decide")
    assert one.tools.names == other.tools.names == ("decide", *PLAIN, "judge")


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("resek", "there is no mode 'resek'; did you mean 'reseek'"),
        ({"name": "zerosearch", "totl": 3}, "mode 'zerosearch' has no setting 'totl'; did you mean 'total'"),
        ({"total": 3}, "mode must be one of reseek, adasearch, zerosearch"),
        (3, "mode must be one of reseek, adasearch, zerosearch"),
        ([True], "mode must be one of reseek, adasearch, zerosearch"),
        (["reseek", Judging()], "each mode can be given once"),
        ({"name": "reseek", "scorer": "rerank"}, "must be a function, not 'rerank'"),
        ({"name": "adasearch", "needs_search": "labels.json"}, "true or false for each task id, not 'labels.json'"),
        ({"name": "zerosearch", "endpoint": {"base_url": "localhost", "model": "m"}}, "must be given as http://"),
    ],
)
def test_a_mode_that_cannot_be_is_refused_in_one_line(mode: Any, message: str):
    with pytest.raises(UsageError, match=message) as raised:
        searching(mode=mode)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("argument", "instead"),
    [("judge", "reseek"), ("scorer", "Judging"), ("two_stage", "adasearch"), ("needs_search", "adasearch"),
     ("simulated", "zerosearch")],
)  # fmt: skip
def test_an_argument_that_became_a_mode_says_which(argument: str, instead: str):
    with pytest.raises(UsageError, match=f"the argument '{argument}' was removed; pass mode=.*{instead}"):
        searching(**{argument: True})


@pytest.mark.parametrize("mode", ["reseek", "adasearch", ["adasearch", {"name": "zerosearch", "total": 9}, "reseek"]])
def test_a_recording_holds_its_modes_as_data_and_is_replayed_without_trust(
    mode: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    factory = EnvFactory("agentgym/search-v0", {"mode": mode, "passages": 1_000})
    task = factory().tasks.get("test", 2)
    [recorded] = asyncio.run(collect([Job(task, seed=0, training_step=9)], ScriptedPolicy(), factory))
    assert recorded.error is None
    assert replay(Trajectory.from_dict(recorded.to_dict())) is None


def test_environments_that_share_a_mode_do_not_share_an_episode():
    mode = [Judging(), Deciding()]
    one, other = searching(mode=mode), searching(mode=mode)
    for env in (one, other):
        env.reset(seed=0)
    call(one, "decide", way="search")
    call(one, "search", query="Port Veld")
    assert (one.part(Judge).pending, other.part(Judge).pending) == (True, False)
    assert call(other, "search", query="Port Veld").startswith("Error: First decide")
    with pytest.raises(UsageError, match="has a Decider"):
        searching(mode="reseek").part(Decider)


def test_a_new_episode_knows_nothing_of_the_last_one():
    env = searching(mode=["adasearch", "reseek"])
    for _ in range(2):
        env.reset(seed=0)
        assert call(env, "decide", way="search") == "Go on."
        assert call(env, "judge", useful=True).startswith("Error: There are no new results")
        call(env, "search", query="Port Veld")


def test_an_environment_that_was_sent_elsewhere_takes_its_modes_along():
    env = searching(mode=["adasearch", Simulating(total=9), "reseek"])
    env.reset(seed=0)
    call(env, "decide", way="search")
    call(env, "search", query="Port Veld")
    again = pickle.loads(pickle.dumps(env))
    assert call(again, "search", query="Tam").startswith("Error: First judge")
    assert call(again, "judge", useful=True) == "Go on."
    assert env.part(Judge).pending


def test_a_mode_of_ones_own_adds_tools_rules_rewards_and_steps():
    env = searching(mode=Hinting(most=2))
    assert env.tools.names == (*PLAIN, "hint")
    assert "Ask for a hint if you are stuck." in env.system_prompt
    assert "Ask for a hint before" in call_first(env, "answer", text="Ana Orn")
    assert call_first(env, "search", query="river Tam") == "No page matches. Try other words."
    result = played(env, TASK, lambda env: env.solution(TASK))  # type: ignore[arg-type, return-value]
    assert result.solved
    assert result.channels["hints"] == 1.0
    assert "hints" not in SearchEnv.channels
    assert "hints" not in searching().channels


def call_first(env: Env, name: str, **arguments: Any) -> str:
    env.reset(seed=0)
    return call(env, name, **arguments)


def test_a_scheme_can_pay_what_a_mode_of_ones_own_measures():
    solved = Gate(on="outcome", at_least=1.0, opens=("hints",))
    scheme = Scheme({"outcome": 1.0, "hints": -0.1}, gates=(solved,), averaged=frozenset({"hints"}))
    play = calls(
        ToolCall("hint", {"about": "x"}),
        ToolCall("answer", {"text": "Ana Orn"}),
    )
    assert played(searching(mode=Hinting(), scheme=scheme), TASK, play).paid == pytest.approx(1 - 0.1 / 2)
    with pytest.raises(UsageError, match="hints"):
        searching(scheme=scheme)


def test_a_subclass_can_name_its_modes_and_shows_what_they_measure():
    env = HintedSearchEnv(index=MemoryIndex(PAGES), tasks=TASKS, mode={"name": "hints", "most": 3})
    env.reset(seed=0)
    assert env.part(Hints).left == 3
    with pytest.raises(UsageError, match=r"There are: reseek, adasearch, zerosearch$"):
        searching(mode="hints")
    kwargs = {"index": MemoryIndex(PAGES), "tasks": TASKS, "mode": Hinting()}
    factory = EnvFactory("tests.test_search_modes:HintedSearchEnv", kwargs)
    episodes = asyncio.run(collect([Job(TASK, seed=0)], ScriptedPolicy(), factory))
    assert HintedSearchEnv.figures(episodes) == {"hints": 1.0}
